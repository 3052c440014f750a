"""
A policy whose actions are always safe
======================================

A point steers around an obstacle to a goal. Velocities lie in a box, and one row that
depends on the state keeps the point from running into the obstacle: n(s)·a <= 2
(distance - radius). Two policies are trained by the same short PPO loop:

- *on the set*: ``IntoRows`` carries a normal distribution onto the safe set of each
  state, with its exact density.
- *squash and project*: the policy is tanh of a normal distribution, and the environment
  moves unsafe actions to the nearest safe one.

``IntoRows`` needs a point well inside each safe set. From a point with little slack,
every action towards the obstacle is cut to almost nothing, sideways motion included,
and the policy learns far more slowly.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.distributions import (
    Distribution,
    Independent,
    Normal,
    TanhTransform,
    TransformedDistribution,
)

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other

N, STEPS, GOAL, RADIUS = 128, 25, torch.tensor([1.5, 0.0]), 0.6
BOX = torch.cat([torch.eye(2), -torch.eye(2)])  # |a_i| <= 1


def start(n: int) -> Tensor:
    """States (n, 4): position, obstacle."""
    position = torch.stack([torch.full((n,), -1.5), torch.rand(n) - 0.5], 1)
    return torch.cat(
        [position, torch.stack([torch.zeros(n), 0.6 * torch.rand(n) - 0.3], 1)], 1
    )


def rows(state: Tensor) -> tuple[Tensor, Tensor]:
    """The safe actions of each state, G a <= h: the box and the row of the obstacle. 0
    is always safe.
    """
    away = state[:, :2] - state[:, 2:]
    distance = away.norm(dim=1, keepdim=True)
    G = torch.cat([BOX.expand(len(state), 4, 2), -(away / distance)[:, None]], 1)
    return G, torch.cat([torch.ones(len(state), 4), 2 * (distance - RADIUS)], 1)


def base_point(state: Tensor) -> Tensor:
    """A point well inside: 0 far from the obstacle, a step back near it."""
    away = state[:, :2] - state[:, 2:]
    distance = away.norm(dim=1, keepdim=True)
    return away / distance * (0.5 - (distance - RADIUS)).clamp(min=0)


def nearest(a: Tensor, G: Tensor, h: Tensor) -> Tensor:
    """The nearest safe action: clamp(a - t g) with the least t >= 0 that meets the
    obstacle's row, by bisection.
    """
    g, limit = G[:, 4], h[:, 4]
    low, high = torch.zeros(len(a)), torch.full((len(a),), 8.0)
    for _ in range(40):
        t = (low + high) / 2
        ok = ((a - t[:, None] * g).clamp(-1, 1) * g).sum(1) <= limit
        low, high = torch.where(ok, low, t), torch.where(ok, t, high)
    safe = (a.clamp(-1, 1) * g).sum(1) <= limit
    return torch.where(
        safe[:, None], a.clamp(-1, 1), (a - high[:, None] * g).clamp(-1, 1)
    )


# %%
# The two policies differ in one line: what happens to the normal distribution.
class Policy(nn.Module):
    def __init__(self, on_the_set: bool) -> None:
        super().__init__()
        self.on_the_set = on_the_set
        self.net = nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
        )
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_scale = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, state: Tensor) -> Distribution:
        normal = Independent(Normal(self.net(state), self.log_scale.exp()), 1)
        if self.on_the_set:
            into = rh.distributions.IntoRows(*rows(state), base_point(state))
            return rh.distributions.OnPolyhedron(normal, into, validate_args=False)
        return TransformedDistribution(
            normal, TanhTransform(cache_size=1), validate_args=False
        )


@torch.no_grad()
def roll_out(policy: Policy) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """States, actions, log-probabilities, returns to go, and the share of proposed
    actions that were safe.
    """
    state, states, actions, log_probs, rewards, safe = start(N), [], [], [], [], []
    for _ in range(STEPS):
        (G, h), pi = rows(state), policy(state)
        a = pi.sample()
        states.append(state)
        actions.append(a)
        log_probs.append(pi.log_prob(a))
        safe.append(((G @ a[..., None])[..., 0] <= h + 1e-5).all(1))
        position = state[:, :2] + 0.2 * (a if policy.on_the_set else nearest(a, G, h))
        state = torch.cat([position, state[:, 2:]], 1)
        rewards.append(-(position - GOAL).norm(dim=1))
    to_go = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    return (
        *(torch.cat(v) for v in (states, actions, log_probs)),
        to_go.flatten(),
        torch.cat(safe).float().mean().item(),
    )


def train(
    on_the_set: bool, seed: int, iterations: int = 40
) -> tuple[list[float], list[float], Policy]:
    torch.manual_seed(seed)
    policy = Policy(on_the_set)
    optimizer = torch.optim.Adam(policy.parameters(), 2e-3)
    returns, shares = [], []
    for _ in range(iterations):
        states, actions, old, to_go, share = roll_out(policy)
        returns.append(to_go[:N].mean().item())
        shares.append(share)
        for _ in range(4):
            for pick in torch.randperm(len(states)).chunk(4):
                value = policy.value(states[pick])[:, 0]
                advantage = (to_go[pick] - value).detach()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
                ratio = (
                    (policy(states[pick]).log_prob(actions[pick]) - old[pick])
                    .clamp(-20, 20)
                    .exp()
                )
                gain = torch.minimum(
                    ratio * advantage, ratio.clamp(0.8, 1.2) * advantage
                )
                optimizer.zero_grad()
                (
                    0.5 * (value - to_go[pick]).square().mean() / 100 - gain.mean()
                ).backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
    return returns, shares, policy


# %%
runs = {
    name: [train(on, seed) for seed in range(3)]
    for name, on in (("on the set", True), ("squash and project", False))
}
for name, found in runs.items():
    last = [sum(r[-5:]) / 5 for r, _, _ in found]
    share = [100 * sum(s[-5:]) / 5 for _, s, _ in found]
    print(
        f"{name}: returns {', '.join(f'{r:.1f}' for r in last)};",
        f"proposed actions that are safe {min(share):.1f} %",
    )
print(
    "every action on the set is safe:",
    min(min(s) for _, s, _ in runs["on the set"]) == 1.0,
)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, found), color in zip(runs.items(), ("#0072B2", "#D55E00"), strict=True):
    left.plot(torch.tensor([r for r, _, _ in found]).mean(0), color=color, label=name)
    right.plot(
        100 * torch.tensor([s for _, s, _ in found]).mean(0), color=color, label=name
    )
left.set(xlabel="iteration", ylabel="return")
right.set(xlabel="iteration", ylabel="safe among proposed actions, %", ylim=(0, 103))
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
