"""Distances, angles and torsions of points, in forms that stay exact and differentiable everywhere."""

import torch
from jaxtyping import Float
from torch import Tensor

Points = Float[Tensor, "*batch 3"]
Scalars = Float[Tensor, "*batch"]


def distance(first: Points, second: Points) -> Scalars:
    """Distance between points, in their unit; its gradient at zero distance is zero."""
    return _safe_norm(second - first)


def angle(first: Points, apex: Points, second: Points) -> Scalars:
    """Angle first-apex-second in [0, pi].

    The form atan2(|u x v|, u . v) keeps all digits near 0 and pi, where arccos loses half of them.
    """
    u, v = first - apex, second - apex
    return _safe_atan2(_safe_norm(torch.linalg.cross(u, v)), (u * v).sum(-1))


def torsion(first: Points, second: Points, third: Points, fourth: Points) -> Scalars:
    """Torsion about the axis second -> third, in [-pi, pi].

    Positive when, looking along the axis, the fourth point is clockwise of the first (IUPAC). The
    fourth point need not be bonded to the third: the torsion between two siblings uses the same form.
    """
    axis = third - second
    u, v = first - second, fourth - third
    normal_u, normal_v = torch.linalg.cross(u, axis), torch.linalg.cross(axis, v)
    # Both arguments carry the factor |axis| |normal_u| |normal_v|, so nothing is normalised.
    sine = (torch.linalg.cross(normal_v, normal_u) * axis).sum(-1)
    cosine = -(normal_u * normal_v).sum(-1) * _safe_norm(axis)
    return _safe_atan2(sine, cosine)


def _safe_norm(vectors: Points) -> Scalars:
    """Norm with gradient zero, instead of NaN, at the zero vector."""
    square = (vectors * vectors).sum(-1)
    zero = square == 0
    return torch.where(zero, square, torch.where(zero, torch.ones_like(square), square).sqrt())


def _safe_atan2(sine: Scalars, cosine: Scalars) -> Scalars:
    """Angle of (cosine, sine); 0 with gradient zero where both vanish, since there it is undefined.

    The test is on the squared length, which autograd divides by: in float32 it underflows first.
    """
    undefined = sine * sine + cosine * cosine < torch.finfo(sine.dtype).tiny
    return torch.atan2(
        torch.where(undefined, torch.zeros_like(sine), sine),
        torch.where(undefined, torch.ones_like(cosine), cosine),
    )
