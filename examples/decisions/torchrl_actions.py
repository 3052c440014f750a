"""
Actions in a set: a spec for TorchRL
====================================

TorchRL asks a spec whether an action is allowed (``is_in``), for the allowed action
nearest to another (``project``), and for a random one (``rand``). A polyhedron answers
all three. So it can be the ``action_spec`` of an environment, and
``SafeModule(..., safe=True)`` projects what is outside. Needs ``pip install torchrl``.
"""

import math

import matplotlib.pyplot as plt
import torch
from tensordict import TensorDict
from torchrl.data import Composite, UnboundedContinuous
from torchrl.modules import SafeModule

import rayhull as rh

torch.set_num_threads(1)  # a small network

# %%
# The spec. TorchRL copies, casts, expands and indexes specs; the set goes along.


class Kept(type(UnboundedContinuous)):
    """TorchRL's metaclass turns every unbounded spec into one of its own classes; this
    one leaves it as it is.
    """

    def __call__(cls, *args, **kwargs):
        return type.__call__(cls, *args, **kwargs)


class PolyhedronSpec(UnboundedContinuous, metaclass=Kept):
    """Elements of a set: batch dimensions, then the event shape."""

    def __init__(self, P, shape=None, device=None, dtype=None):
        super().__init__(shape=torch.Size(shape or P.shape), device=device, dtype=dtype)
        self.polyhedron = P

    def is_in(self, val):
        return super().is_in(val) and bool(self.polyhedron.contains(val).all())

    def _project(self, val):
        return rh.project(self.polyhedron, val.to(self.dtype))

    def rand(self, shape=()):
        batch = (*(shape or ()), *self.shape[: self.ndim - len(self.polyhedron.shape)])
        seed = int(torch.randint(2**31, ()))  # so that torch's generator says which
        points = self.polyhedron.sample(math.prod(batch), seed).reshape(
            *batch, *self.polyhedron.shape
        )
        return torch.as_tensor(points, dtype=self.dtype, device=self.device)

    def like(self, shape=None, device=None, dtype=None):
        return type(self)(
            self.polyhedron,
            shape or self.shape,
            device or self.device,
            dtype or self.dtype,
        )

    def clone(self):
        return self.like()

    def to(self, dest):
        return (
            self.like(dtype=dest)
            if isinstance(dest, torch.dtype)
            else self.like(device=dest)
        )

    def expand(self, *shape):
        return self.like(torch.empty(self.shape, device="meta").expand(*shape).shape)

    def __getitem__(self, index):
        return self.like(torch.empty(self.shape, device="meta")[index].shape)


# %%
# Three joints whose torques share a budget. An actor that knows nothing of it, made
# safe:

P = rh.parse("budget: a + 2*b + c <= 1; -1 <= a <= 1; -1 <= b <= 1; -1 <= c <= 1")
spec = PolyhedronSpec(P)
torch.manual_seed(0)
actor = SafeModule(
    torch.nn.Linear(4, 3),
    in_keys=["state"],
    out_keys=["action"],
    spec=Composite(action=spec),
    safe=True,
)
states = 9 * torch.randn(64, 4)
actions = actor(TensorDict({"state": states}, [64]))["action"].detach()
free = actor.module(states).detach()
outside = int((~P.contains(free)).sum())
print(f"{outside} of 64 actions of the Linear alone are outside")

# %%
# Random actions are in the set, and a spec that is expanded or indexed keeps it.

rows = spec.expand(8, 3)
inside = (
    spec.is_in(actions)
    and rows.is_in(rows.rand())
    and rows[0].to(torch.float64).is_in(spec.rand().double())
)
nearest = torch.equal(
    spec.project(5 * torch.ones(2, 3)), rh.project(P, 5 * torch.ones(2, 3))
)
print(
    "actions of the safe actor and random ones are inside,",
    "and projections are nearest points:",
    inside and nearest,
)

# %%
fig, ax = plt.subplots(figsize=(4.5, 3.8), layout="constrained")
P.plot(("a", "b"), ax=ax)
ax.scatter(*free[:, :2].T, s=8, color="tab:orange", label="Linear alone")
ax.scatter(*actions[:, :2].T, s=12, color="tab:green", label="safe actor")
ax.set(xlim=(-4, 4), ylim=(-4, 4), xlabel="a", ylabel="b")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
plt.show()
