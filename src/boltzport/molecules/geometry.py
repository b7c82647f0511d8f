"""Distances, angles and torsions of points, in forms that stay exact and differentiable everywhere.

The three components come first and the batch last, so that each operation is one long loop.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Points = Float[Tensor, "3 *batch"]
Scalars = Float[Tensor, "*batch"]


def distance(first: Points, second: Points) -> Scalars:
    """Distance between points, in their unit; the gradient at zero distance is zero."""
    return _safe_norm(second - first)


def angle(first: Points, apex: Points, second: Points) -> Scalars:
    """Angle first-apex-second in [0, pi].

    The form atan2(|u x v|, u . v) keeps all digits near 0 and pi, where arccos loses half of them.
    """
    u, v = first - apex, second - apex
    return _safe_atan2(_safe_norm(_cross(u, v)), _dot(u, v))


def torsion(first: Points, second: Points, third: Points, fourth: Points) -> Scalars:
    """Torsion about the axis second -> third, in [-pi, pi].

    Positive when, looking along the axis, the fourth point is clockwise of the first (IUPAC). The
    first point need not be bonded to the second: the torsion between two siblings uses the same form.
    """
    axis = third - second
    normal_u = _cross(first - second, axis)
    v = fourth - third
    # sin and cos of the torsion times |axis| |normal_u| |normal_v|, normal_v = axis x v, without normalisation.
    sine = _dot(normal_u, v) * -_safe_norm(axis)
    cosine = -_dot(normal_u, _cross(axis, v))
    return _safe_atan2(sine, cosine)


def _cross(u: Points, v: Points) -> Points:
    (a, b, c), (x, y, z) = u, v
    return torch.stack([b * z - c * y, c * x - a * z, a * y - b * x])


def _dot(u: Points, v: Points) -> Scalars:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


def _safe_norm(vectors: Points) -> Scalars:
    """Norm with zero gradient, instead of NaN, at the zero vector."""
    square = _dot(vectors, vectors)
    zero = square == 0
    return torch.where(zero, square, torch.where(zero, 1.0, square).sqrt())


def _safe_atan2(sine: Scalars, cosine: Scalars) -> Scalars:
    """Angle of (cosine, sine); 0 with zero gradient where both vanish, since it is undefined there.

    The test uses the squared length, which autograd divides by: in float32 it underflows first.
    """
    undefined = sine * sine + cosine * cosine < torch.finfo(sine.dtype).tiny
    return torch.atan2(torch.where(undefined, 0.0, sine), torch.where(undefined, 1.0, cosine))
