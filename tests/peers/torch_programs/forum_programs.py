"""Ten more broken programs of PyTorch and JAX, in the style of questions in forums."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch import nn
from torch.nn import functional

import wiregrad as wg

from .registry import ask_backward, ask_blame, ask_explain, collect_programs, watch_step

PROGRAMS, broken = collect_programs()


@broken(ask_blame, "addmm", "critic.2", ("step",))
def critic_updated_before_the_generator_loss() -> Any:
    """One of the variables needed for gradient computation has been modified, but I change nothing in place."""
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {
            "generator": nn.Linear(2, 4),
            "critic": nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)),
        }
    )
    update_critic = torch.optim.SGD(model["critic"].parameters(), lr=0.1)
    fake = model["generator"](torch.randn(5, 2))
    real = torch.randn(5, 4)
    watched = wg.watch(model)
    try:
        with watched:
            score = model["critic"](fake)  # broken
            critic_loss = model["critic"](fake.detach()).mean() - model["critic"](real).mean()
            update_critic.zero_grad()
            critic_loss.backward()
            update_critic.step()  # second
            (-score.mean()).backward()
    except RuntimeError:
        pass
    return watched


@broken(ask_blame, "mm", "", ("copy_",))
def states_collected_in_one_tensor() -> Any:
    """My hand-written recurrent layer fails in backward with a version mismatch."""
    torch.manual_seed(0)
    w = nn.Parameter(torch.randn(3, 3))
    x = torch.randn(4, 2, 3)

    def loss() -> torch.Tensor:
        states = torch.zeros(4, 2, 3)
        for k in range(1, 4):
            states[k] = torch.tanh(states[k - 1] @ w + x[k])  # broken
        return states.sum()

    return watch_step(None, loss)


@broken(ask_blame, "div", "encoder.norm", ("NaN",))
def epsilon_that_half_precision_rounds_to_zero() -> Any:
    """Training in half precision gives NaN in my own LayerNorm, although it has an epsilon."""

    class Norm(nn.Module):
        def __init__(self, width: int, eps: float = 1e-8) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))
            self.eps = eps

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            centred = x - x.mean(-1, keepdim=True)
            variance = centred.pow(2).mean(-1, keepdim=True)
            unit = centred / torch.sqrt(variance + self.eps)  # broken
            return unit * self.gain

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(4, 6)
            self.norm = Norm(6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.embed(x))

    torch.manual_seed(0)
    model = nn.ModuleDict({"encoder": Encoder(), "head": nn.Linear(6, 2)}).half()
    with torch.no_grad():
        model["encoder"].embed.bias.fill_(0.5)
    x = torch.randn(3, 4).half()
    x[1] = 0.0
    return watch_step(model, lambda: model["head"](model["encoder"](x)).float().logsumexp(-1).mean())


@broken(ask_blame, "_linalg_eigh", "whiten", ("sent back",))
def whitening_of_white_data() -> Any:
    """The loss is fine, but all gradients are NaN with my whitening layer."""

    class Whiten(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            covariance = x.T @ x / len(x)
            values, vectors = torch.linalg.eigh(covariance)  # broken
            return x @ vectors @ torch.diag(values.clamp_min(1e-5).rsqrt()) @ vectors.T

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))
            self.whiten = Whiten()
            self.out = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.whiten(self.scale * x))

    torch.manual_seed(0)
    model = Model()
    x = torch.cat([torch.eye(3), -torch.eye(3)])
    return watch_step(model, lambda: model(x).square().mean())


@broken(ask_explain("codebook.weight"), "detach", "quantize", ("detached",))
def codebook_without_a_loss_of_its_own() -> Any:
    """The codebook of my VQ-VAE stays as it was initialised."""

    class Quantize(nn.Module):
        def __init__(self, codebook: nn.Embedding) -> None:
            super().__init__()
            self.book = [codebook]

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            distances = torch.cdist(z, self.book[0].weight)
            chosen = self.book[0](distances.argmin(-1))
            return z + (chosen - z).detach()  # broken

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(6, 3)
            self.codebook = nn.Embedding(8, 3)
            self.quantize = Quantize(self.codebook)
            self.decoder = nn.Linear(3, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.quantize(self.encoder(x)))

    torch.manual_seed(0)
    model = Autoencoder()
    x = torch.randn(5, 6)
    return watch_step(model, lambda: functional.mse_loss(model(x), x))


@broken(ask_blame, "std", "", ("NaN",))
def advantages_of_a_single_episode() -> Any:
    """My policy gradient is NaN after an update with one episode."""
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    observations = torch.randn(1, 3)
    returns = torch.tensor([1.5])

    def loss() -> torch.Tensor:
        choice = torch.distributions.Categorical(logits=policy(observations))
        actions = choice.sample()
        spread = returns.std()  # broken
        advantages = (returns - returns.mean()) / (spread + 1e-8)
        return -(choice.log_prob(actions) * advantages).mean()

    return watch_step(policy, loss)


@broken(ask_explain("fc.weight"), "_local_scalar_dense", "", ("Python number",))
def losses_joined_by_a_new_tensor() -> Any:
    """loss.backward() runs without an error, but my weights never change."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"fc": nn.Linear(3, 2)})
    x = torch.randn(4, 3)
    labels = torch.tensor([0, 1, 1, 0])

    def loss() -> torch.Tensor:
        scores = model["fc"](x)
        parts = [functional.cross_entropy(scores, labels), 0.1 * scores.square().mean()]
        return torch.tensor([part.item() for part in parts], requires_grad=True).sum()  # broken

    return watch_step(model, loss)


@broken(ask_blame, "sub", "attend", ("NaN",))
def query_without_any_key() -> Any:
    """Padding whole sequences makes my attention NaN."""

    def attend(q: Any, k: Any, v: Any, padding: Any) -> Any:
        scores = q @ k.T / jnp.sqrt(q.shape[-1])
        scores = jnp.where(padding[None, :], -jnp.inf, scores)
        return jax.nn.softmax(scores, axis=-1) @ v  # broken

    def loss(params: Any, x: Any, padding: Any) -> Any:
        rows = jax.vmap(lambda s, p: attend(s @ params["q"], s @ params["k"], s @ params["v"], p))(x, padding)
        return jnp.mean(rows**2)

    keys = jax.random.split(jax.random.key(0), 4)
    params = {name: jax.random.normal(key, (4, 4)) for name, key in zip("qkv", keys, strict=False)}
    padding = jnp.array([[False, False, True], [True, True, True]])
    return wg.watch(loss, params, jax.random.normal(keys[3], (2, 3, 4)), padding)


@broken(ask_backward, "log_cosh", "penalty", ("log_cosh",))
def rule_for_log_cosh_with_the_wrong_slope() -> Any:
    """I gave log(cosh(x)) a stable rule, and since then the optimiser converges to something else."""

    @jax.custom_jvp
    def log_cosh(x: Any) -> Any:
        return jnp.logaddexp(x, -x) - jnp.log(2.0)

    @log_cosh.defjvp
    def push_log_cosh(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return log_cosh(x), t * (1 - jnp.tanh(x) ** 2)

    def penalty(errors: Any) -> Any:
        return jnp.mean(log_cosh(errors))  # broken

    @jax.jit
    def loss(params: Any, x: Any, y: Any) -> Any:
        return penalty(x @ params["w"] + params["b"] - y)

    params = {"w": jnp.array([0.5, -1.0]), "b": jnp.array(0.1)}
    x = jax.random.normal(jax.random.key(1), (6, 2))
    return wg.watch(loss, params, x, x @ jnp.array([1.0, 2.0]))


@broken(ask_blame, "sqrt", "direction", ("sqrt sent back", "0"))
def direction_between_particles_in_a_vmap() -> Any:
    """The force on each particle is NaN because each is also compared with itself, although I mask that."""

    def direction(a: Any, b: Any) -> Any:
        difference = a - b
        length = jnp.linalg.norm(difference)  # broken
        return jnp.where(length > 0, jnp.exp(-length), 0.0)

    def energy(positions: Any) -> Any:
        pairs = jax.vmap(lambda a: jax.vmap(lambda b: direction(a, b))(positions))(positions)
        return jnp.sum(pairs)

    return wg.watch(energy, jax.random.normal(jax.random.key(2), (4, 3)))
