"""Recognise OpenMM's custom expressions by their content, never by their origin.

An expression is normalised (no white space, definitions separated, numbers extracted from definitions) and
compared with the texts that OpenMM's XML files produce. Only identical texts are recognised.
"""

import re
from dataclasses import dataclass

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Expression:
    """A custom expression in normal form.

    Attributes:
        formula: the expression itself, without white space.
        definitions: intermediate values that are formulas, by name.
        constants: intermediate values that are numbers, by name.
    """

    formula: str
    definitions: dict[str, str]
    constants: dict[str, float]


def normalise(text: str) -> Expression:
    """Bring an expression to normal form.

    Example:
        >>> normalise("k * x^2; x = r - r0; k = 3.5;")
        Expression(formula='k*x^2', definitions={'x': 'r-r0'}, constants={'k': 3.5})
    """
    formula, *rest = [part for part in re.sub(r"\s+", "", text).split(";") if part] or [""]
    definitions, constants = {}, {}
    for part in rest:
        name, _, value = part.partition("=")
        if re.fullmatch(_NUMBER, value):
            constants[name] = float(value)
        else:
            definitions[name] = value
    return Expression(formula, definitions, constants)


def match(text: str, template: str) -> dict[str, float] | None:
    """Numbers of an expression if it matches the template, else ``None``.

    A template has ``{name}`` in place of an arbitrary number. The sets of definitions must be equal. The numbers
    that the expression defines, and those in the template's places, are returned by name.

    Example:
        >>> match("-0.5*138.9*q^2/B; q = 2", "-0.5*{coulomb}*q^2/B")
        {'q': 2.0, 'coulomb': 138.9}
        >>> match("q^2/B^2", "-0.5*{coulomb}*q^2/B") is None
        True
    """
    found, expected = normalise(text), normalise(template)
    numbers = dict(found.constants)
    if found.definitions.keys() != expected.definitions.keys():
        return None
    texts = [(found.formula, expected.formula)]
    texts += [(found.definitions[name], expected.definitions[name]) for name in expected.definitions]
    for actual, pattern in texts:
        regex = re.sub(r"\\\{(\w+)\\\}", lambda place: f"(?P<{place[1]}>{_NUMBER})", re.escape(pattern))
        matched = re.fullmatch(regex, actual)
        if matched is None:
            return None
        numbers |= {name: float(value) for name, value in matched.groupdict().items()}
    return numbers


HARMONIC_IMPROPER = "k*(theta-theta0)^2"
PERIODIC_IMPROPER = "k*min(dtheta,2*pi-dtheta)^2;dtheta=abs(theta-theta0)"
LENNARD_JONES_TABLES = "acoef(type1,type2)/r^12-bcoef(type1,type2)/r^6"
LENNARD_JONES_BOND = "{scale}*epsilon*((sigma/r)^12-(sigma/r)^6)"

_HCT = "select(step(r+sr2-or1),0.5*(1/L-1/U+0.25*(r-sr2^2/r)*(1/(U^2)-1/(L^2))+0.5*log(L/U)/r),0)"
_BOUNDS = ";U=r+sr2;L=max(or1,D);D=abs(r-sr2)"
DESCREENING = _HCT + _BOUNDS
NECK_DESCREENING = (
    "Ivdw+neckScale*Ineck;"
    "Ineck=step(radius1+radius2+neckCut-r)*getm0(radindex1,radindex2)"
    "/(1+100*(r-getd0(radindex1,radindex2))^2+0.3*1000000*(r-getd0(radindex1,radindex2))^6);"
    "Ivdw=" + _HCT + _BOUNDS + ";radius1=or1+offset;radius2=or2+offset"
)
RADIUS_HCT = "1/(1/or-I)"
_PSI = ";psi=I*or;radius=or+offset"
RADIUS_TWO_TERMS = "1/(1/or-tanh({a}*psi+{c}*psi^3)/radius)" + _PSI
RADIUS_UNIT_FIRST = "1/(1/or-tanh(psi-{b}*psi^2+{c}*psi^3)/radius)" + _PSI
RADIUS_THREE_TERMS = "1/(1/or-tanh({a}*psi-{b}*psi^2+{c}*psi^3)/radius)" + _PSI
RADIUS_PER_ATOM = "1/(1/or-tanh(alpha*psi-beta*psi^2+gamma*psi^3)/radius)" + _PSI
SELF = "-0.5*{coulomb}*(1/soluteDielectric-1/solventDielectric)*charge^2/B"
SELF_SALT = "-0.5*{coulomb}*(1/soluteDielectric-exp(-kappa*B)/solventDielectric)*charge^2/B"
SURFACE = "{tension}*(radius+{probe})^2*(radius/B)^6;radius=or+offset"
_F = ";f=sqrt(r^2+B1*B2*exp(-r^2/(4*B1*B2)))"
PAIR = "-{coulomb}*(1/soluteDielectric-1/solventDielectric)*charge1*charge2/f" + _F
PAIR_SALT = "-{coulomb}*(1/soluteDielectric-exp(-kappa*f)/solventDielectric)*charge1*charge2/f" + _F
