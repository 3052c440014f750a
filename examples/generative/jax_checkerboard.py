"""
The checkerboard in JAX
=======================

The paper's constraint, images whose tiles are dark and light in turn, in JAX with
Equinox and Optax. State the set and build the layer in torch. ``rh.to_jax`` gives its
parameters and a function of them, which fit into any module of JAX.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import load_digits

import rayhull as rh

P = rh.checkerboard((8, 8), tiles=(4, 4)) & rh.box(-1, 1)
digits = load_digits().images[:512].astype(np.float32) / 8 - 1  # in [-1, 1]


# %%
# An autoencoder of Equinox with our layer at its end.
class Autoencoder(eqx.Module):
    encoder: eqx.nn.MLP
    decoder: eqx.nn.MLP
    head: dict
    apply: callable = eqx.field(static=True)

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.encoder = eqx.nn.MLP(64, 8, 64, 1, key=first)
        self.decoder = eqx.nn.MLP(8, 64, 64, 1, key=second)
        self.head, self.apply = rh.to_jax(rh.Constrained(64, P))

    def __call__(self, image):
        return self.apply(self.head, self.decoder(self.encoder(image.ravel())))


# %%
def loss_of(model, images):
    return ((jax.vmap(model)(images) - images) ** 2).mean()


@eqx.filter_jit
def step(model, state, images):
    loss, slope = eqx.filter_value_and_grad(loss_of)(model, images)
    change, state = rule.update(slope, state)
    return eqx.apply_updates(model, change), state, loss


model, rule = Autoencoder(jax.random.key(0)), optax.adam(2e-3)
state = rule.init(eqx.filter(model, eqx.is_array))
for epoch in range(60):
    for images in jnp.split(digits, 8):
        model, state, loss = step(model, state, images)
    if epoch % 20 == 0:
        print(f"epoch {epoch}: {loss:.3f}")

# %%
noise = 10 * jax.random.normal(
    jax.random.key(1), (1000, 8, 8)
)  # far from the data, too
images = np.asarray(jax.jit(jax.vmap(model))(jnp.concatenate([digits, noise])))
print("every image on the checkerboard:", bool(P.contains(images).all()))

fig, axes = plt.subplots(2, 4, figsize=(5.6, 3.2), layout="constrained")
for i in range(4):
    axes[0, i].imshow(digits[i], cmap="gray", vmin=-1, vmax=1)
    axes[1, i].imshow(images[i], cmap="gray", vmin=-1, vmax=1)
for ax in axes.flat:
    ax.axis("off")
fig.suptitle("digits, and their decoded images on the checkerboard")
plt.show()
