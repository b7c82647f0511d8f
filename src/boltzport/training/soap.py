"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner.

N. Vyas, D. Morwani, R. Zhao, I. Shapira, D. Brandfonbrener, L. Janson, S. Kakade, SOAP: Improving and Stabilizing
Shampoo using Adam, ICLR 2025. For a matrix of weights with gradient G the running means of G G^T and G^T G are L and R;
Adam's step is computed for Q_L^T G Q_R, where Q_L and Q_R are their eigenvectors, and rotated back. The eigenvectors
are updated at intervals by one step of orthogonal iteration. The running mean of the gradient is kept in the
eigenbasis and rotated with it, which saves two matrix products per step. Biases are updated by Adam with the same
settings.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

EVERY = 20
"""Number of steps between updates of the eigenvectors."""
LOOK = 4
"""Number of steps between updates of the preconditioner."""
LARGEST = 1024
"""Matrix dimensions longer than this have no preconditioner."""


class Soap(torch.optim.Optimizer):
    """The SOAP optimiser; its state is plain tensors, so that resuming is bitwise reproducible.

    Args:
        parameters: Vectors and matrices.
        lr: Learning rate.
        betas: Decay of the running means of the gradients and of their squares.
        memory: Decay of the running means of the preconditioner, at each of its updates.
        eps: Term added to the denominator for numerical stability.
        weight_decay: Coefficient of the L2 penalty on the weights, added to the gradient as in Adam.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.98),
        memory: float = 0.8,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "memory": memory, "eps": eps, "weight_decay": weight_decay}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Do one step with the present gradients."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _step(parameter, parameter.grad, self.state[parameter], group)


def _step(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if group["weight_decay"]:
        gradient = gradient + group["weight_decay"] * parameter
    if not state:
        state |= {"step": 0, "mean": torch.zeros_like(parameter), "square": torch.zeros_like(parameter)}
        for side in _sides(parameter):
            state[f"second_{side}"] = parameter.new_zeros(parameter.shape[side], parameter.shape[side])
    _follow(gradient, state, group["memory"])
    state["step"] += 1
    first, second = group["betas"]
    turned = _turn(gradient, state)
    state["mean"].lerp_(turned, 1.0 - first)
    state["square"].lerp_(turned * turned, 1.0 - second)
    root = (state["square"] / (1.0 - second ** state["step"])).sqrt_().add_(group["eps"])
    step = (state["mean"] / (1.0 - first ** state["step"])).div_(root)
    # The squares are not rotated with the axes, so after a rotation they may be far too small for a while.
    step = step / step.square().mean().sqrt().clamp_min(1.0)
    parameter.sub_(_turn(step, state, back=True), alpha=group["lr"])


def _sides(parameter: Tensor) -> list[int]:
    """Dimensions of a matrix that have a preconditioner."""
    return [side for side in range(2) if parameter.ndim == 2 and 1 < parameter.shape[side] <= LARGEST]


def _follow(gradient: Tensor, state: dict[str, Any], memory: float) -> None:
    """Update the preconditioner with the gradient, and its eigenvectors."""
    for side in _sides(gradient):
        second, name = state[f"second_{side}"], f"basis_{side}"
        if state["step"] % LOOK == 0:
            second.lerp_(gradient @ gradient.T if side == 0 else gradient.T @ gradient, 1.0 - memory)
        if name not in state:
            state[name] = torch.linalg.eigh(second).eigenvectors
        elif state["step"] % EVERY == 0:
            former, state[name] = state[name], torch.linalg.qr(second @ state[name]).Q
            change = former.T @ state[name]
            state["mean"] = change.T @ state["mean"] if side == 0 else state["mean"] @ change


def _turn(matrix: Tensor, state: dict[str, Any], *, back: bool = False) -> Tensor:
    """Rotate to the eigenbasis of the preconditioner, or back."""
    for side in _sides(matrix):
        basis = state[f"basis_{side}"]
        basis = basis.T if back else basis
        matrix = basis.T @ matrix if side == 0 else matrix @ basis
    return matrix
