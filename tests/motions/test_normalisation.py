"""How the norm is kept: each scheme against equations that are solved by other means."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.integrate import solve_ivp

import attnflow as af
from attnflow.laws import Hearing
from attnflow.motions.normalisation import RADIAL, SCHEMES

X0 = af.tokens.sphere(n=6, d=3, seed=1)
LAW = af.Softmax(beta=1.5)


def own(norm: str, **given: float) -> dict[str, Any]:
    """Return what the scheme takes of these parameters."""
    return {name: value for name, value in given.items() if norm == {"tau": "mix", "alpha": "ngpt"}[name]}


def closed(norm: str, n: int, beta: float, until: float, tau: float) -> np.ndarray:
    """Return (rho, r) of n tokens that start orthogonal, derived by hand from theta' = s^{-1} Proj A and r'."""

    def slope(t: float, y: np.ndarray) -> list[float]:
        rho, r = y
        own, other = np.exp(beta), np.exp(beta * rho)
        a, p = own / (own + (n - 1) * other), other / (own + (n - 1) * other)
        along = a + (n - 1) * p * rho
        size = np.sqrt(a * a + 2 * a * p * (n - 1) * rho + p * p * (n - 1) * (1 + (n - 2) * rho))
        kind = ("post" if t < tau else "pre") if norm == "mix" else norm
        s = {"post": 1.0, "pre": r, "peri": r * size, "ngpt": size, "cod": np.sqrt(t + 1)}[kind]
        growth = {"pre": along, "peri": along / size}.get(kind, 0.0)
        return [2 * p * (1 - rho) * (1 + (n - 1) * rho) / s, growth]

    options = {"rtol": 1e-12, "atol": 1e-13}
    first = solve_ivp(slope, (0, tau), [0.0, 1.0], "LSODA", **options).y[:, -1]
    return solve_ivp(slope, (tau, until), first, "LSODA", **options).y[:, -1]


@pytest.mark.parametrize("norm", SCHEMES)
def test_equiangular_tokens_follow_two_numbers(norm: str) -> None:
    run = af.simulate(np.eye(5)[:4], LAW, af.SphereFlow(norm=norm, **own(norm, tau=0.75)), until=3.0)
    rho, r = closed(norm, 4, 1.5, 3.0, 0.75)
    inner = run.final @ run.final.T
    assert np.abs(inner[~np.eye(4, dtype=bool)] - rho).max() < 1e-8
    assert np.abs(run.radii[-1] - r).max() < 1e-8 * r
    assert (r != 1) == (norm in RADIAL)


@pytest.mark.parametrize(("norm", "speed"), [("post", 0.11288), ("pre", 0.11288), ("peri", 0.42268), ("ngpt", 0.42268)])
def test_first_speed_of_the_paper(norm: str, speed: float) -> None:
    x = np.eye(16)
    v = af.SphereFlow(norm=norm).velocity(Hearing(af.Softmax(beta=1.0)), x, 0.0)
    v = v - (v * x).sum(axis=1, keepdims=True) * x
    assert abs(v[0] @ x[1] + x[0] @ v[1] - speed) < 5e-6


@pytest.mark.parametrize("norm", SCHEMES)
def test_layers_tend_to_the_flow_with_order_one(norm: str) -> None:
    given = own(norm, tau=0.5, alpha=0.7)
    exact = af.simulate(X0, LAW, af.SphereFlow(norm=norm, **given), until=2.0).final
    ends = [
        af.simulate(X0, LAW, af.SphereLayers(dt=dt, norm=norm, **given), until=round(2 / dt)).final
        for dt in (1 / 64, 1 / 128)
    ]
    one, two = (np.abs(end - exact).max() for end in ends)
    assert 0.9 < np.log2(one / two) < 1.1


@pytest.mark.parametrize("norm", SCHEMES)
def test_layer_norm_is_rms_norm_among_centred_vectors(norm: str) -> None:
    """An orthonormal basis of the vectors whose coordinates add up to 0 turns one into the other."""
    basis = np.linalg.svd(np.eye(4) - 1 / 4)[0][:, :3]
    V = np.random.default_rng(0).standard_normal((4, 4))
    plane = af.SphereLayers(V=basis.T @ V @ basis, dt=0.25, norm=norm)
    centred = af.SphereLayers(V=V, dt=0.25, norm=norm, centred=True)
    small = af.simulate(X0, LAW, plane, until=8)
    large = af.simulate(X0 @ basis.T, LAW, centred, until=8)
    np.testing.assert_allclose(large.tokens @ basis, small.tokens, atol=1e-12)
    np.testing.assert_allclose(large.radii, small.radii, rtol=1e-12)
    # A mean of the coordinates is never heard.
    other = X0 @ basis.T + 0.5
    again = af.simulate(other / np.linalg.norm(other, axis=1, keepdims=True), LAW, centred, until=8)
    np.testing.assert_allclose(again.tokens, large.tokens, atol=1e-12)


@pytest.mark.parametrize("tau", [0.7, 0.0])
def test_mix_is_post_and_then_pre(tau: float, tmp_path: Path) -> None:
    """No step goes over tau, where the velocity jumps: two runs, one after the other, end at the same place."""
    motion = af.SphereFlow(norm="mix", tau=tau)
    mix = af.simulate(X0, LAW, motion, until=3.0)
    first = af.simulate(X0, LAW, af.SphereFlow(), until=tau).final if tau else X0
    second = af.simulate(first, LAW, af.SphereFlow(norm="pre"), until=3.0 - tau)
    assert tau in mix.times
    np.testing.assert_allclose(mix.tokens[mix.times.tolist().index(tau)], first, atol=1e-10)
    np.testing.assert_allclose(mix.final, second.final, atol=3e-10)
    np.testing.assert_allclose(mix.radii[-1], second.radii[-1], rtol=3e-10)
    many = af.ensemble(np.stack([X0, -X0]), LAW, motion, until=3.0, record=[1.0])
    np.testing.assert_allclose(many.final[0], second.final, atol=3e-10)
    for until in (0.5, 0.7, 1.0, 3.0):  # before tau, at tau, and after it
        longer = af.simulate(X0, LAW, motion, until=until, store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(longer.final, mix.final)
    np.testing.assert_array_equal(longer.radii[-1], mix.radii[-1])


@pytest.mark.parametrize("normalized", [True, False])
def test_states_of_pre_are_a_flow_in_space(normalized: bool) -> None:
    """X' = A(x / |x|), written out with the weights of the law."""

    def slope(t: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(X0.shape)
        theta = x / np.linalg.norm(x, axis=1, keepdims=True)
        pulls = np.exp(1.5 * theta @ theta.T)
        return (pulls @ theta / (pulls.sum(axis=1, keepdims=True) if normalized else len(x))).ravel()

    x = solve_ivp(slope, (0, 2), X0.ravel(), "LSODA", rtol=1e-11, atol=1e-12).y[:, -1].reshape(X0.shape)
    run = af.simulate(X0, LAW, af.SphereFlow(norm="pre", normalized=normalized), until=2.0)
    np.testing.assert_allclose(run.final * run.radii[-1][:, None], x, rtol=1e-7)


LAWS = [
    af.Masked(LAW, causal=True), af.Positional(LAW, alibi=0.5), af.Heads([LAW, af.Softmax(beta=3.0)]), af.Sinkhorn(),
    af.Entmax(alpha=1.5), af.Linear(), af.Unnormalized(),
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_every_law_is_heard_at_directions(law: af.laws.Law) -> None:
    """Weights of any kind: rows that do not add up to one, and some that are negative, too."""
    V = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.5], [0.25, 0.0, 1.0]])
    for matrix in (None, 2 * np.eye(3), V):
        A = law.attend(X0) @ (np.eye(3) if matrix is None else matrix).T
        unit = A / np.linalg.norm(A, axis=1, keepdims=True)
        tangent = unit - (unit * X0).sum(axis=1, keepdims=True) * X0
        for norm, expected in {"pre": A, "peri": unit, "ngpt": tangent}.items():
            # At radius 2 the same is heard, and directions turn at half the speed.
            found = af.SphereFlow(V=matrix, norm=norm).velocity(Hearing(law), 2 * X0, 0.0)
            np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("norm", SCHEMES)
def test_energy_of_directions_never_decreases(norm: str) -> None:
    run = af.simulate(X0, LAW, af.SphereFlow(norm=norm), until=4.0)
    assert (np.diff(af.measure.energy(run, beta=1.5)) > 0).all()


@pytest.mark.parametrize("norm", ["peri", "ngpt"])
def test_what_is_divided_by_its_size_does_not_know_n(norm: str) -> None:
    one, other = (
        af.simulate(X0, LAW, af.SphereFlow(norm=norm, normalized=normalized), until=1.0) for normalized in (True, False)
    )
    np.testing.assert_array_equal(one.tokens, other.tokens)


@pytest.mark.parametrize("motion", [af.SphereFlow(norm="pre"), af.SphereLayers(dt=0.5, norm="peri")])
def test_radii_are_kept_wherever_runs_go(motion: af.motions.Motion, tmp_path: Path) -> None:
    run = af.simulate(X0, LAW, motion, until=8, record=[3, 6])
    assert np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max() < 1e-15
    for ending in ("zarr", "npz", "nc"):
        run.save(tmp_path / f"run.{ending}")
        again = af.load(tmp_path / f"run.{ending}")
        np.testing.assert_array_equal(again.tokens, run.tokens)
        np.testing.assert_array_equal(again.radii, run.radii)
        np.testing.assert_allclose(again.at(4), run.at(4), atol=1e-9)
    np.testing.assert_allclose(run.at(4), af.simulate(X0, LAW, motion, until=8).at(4), atol=1e-9)
    data = run.to_xarray()
    np.testing.assert_array_equal(data.radii, run.radii)
    assert "radii" in run.to_pandas()

    part = tmp_path / "part.zarr"
    af.simulate(X0, LAW, motion, until=3, record=[3], store=part)
    whole = af.simulate(X0, LAW, motion, until=8, store=tmp_path / "whole.zarr")
    longer = af.simulate(X0, LAW, motion, until=8, record=[3], store=part)
    np.testing.assert_array_equal(longer.final, whole.final)
    np.testing.assert_array_equal(longer.radii[-1], whole.radii[-1])

    found = af.ensemble(np.stack([X0, -X0]), LAW, motion, until=8, record=[3, 6])
    np.testing.assert_allclose(found.tokens[:, 0], run.tokens, atol=1e-8)
    np.testing.assert_allclose(found.radii[:, 0], run.radii, rtol=1e-8)
    np.testing.assert_array_equal(found[1].radii, found.radii[:, 1])
    found.save(tmp_path / "found.npz")
    np.testing.assert_array_equal(af.load(tmp_path / "found.npz").radii, found.radii)
    observed = af.ensemble(found.tokens[0], LAW, motion, until=8, observe=lambda x: np.linalg.norm(x, axis=2))
    assert np.abs(observed.values - 1).max() < 1e-15
    assert len(observed.to_pandas()) == observed.values.size


def test_noise_is_added_to_the_state_where_tokens_have_radii() -> None:
    noisy = af.simulate(X0, LAW, af.Noisy(af.SphereLayers(dt=0.5, norm="pre"), sigma=0.1), until=1, seed=3)
    still = af.simulate(X0, LAW, af.SphereLayers(dt=0.5, norm="pre"), until=1)
    x, y = (run.final * run.radii[-1][:, None] for run in (noisy, still))
    along = ((x - y) * still.final).sum(axis=1)
    assert np.abs(np.linalg.norm(noisy.final, axis=1) - 1).max() < 1e-15
    assert 0.03 < along.std() < 0.3
    flows = [af.Noisy(af.SphereFlow(norm="pre"), kappa=np.inf, dt=0.5), af.SphereLayers(dt=0.5, norm="pre")]
    one, other = (af.simulate(X0, LAW, motion, until=2 * k, seed=0) for k, motion in zip((0.5, 1), flows, strict=True))
    np.testing.assert_allclose(one.final, other.final, atol=1e-14)


def test_watchers_see_directions() -> None:
    longest = af.watch.When(lambda t, x: bool(np.linalg.norm(x, axis=1).max() > 1 + 1e-15), "a token is long")
    run = af.simulate(X0, LAW, af.SphereLayers(norm="pre"), until=3, watch=[longest])
    assert run.times[-1] == 3
    assert run.radii[-1].min() > 1.5


@pytest.mark.parametrize("norm", ["peri", "ngpt"])
def test_who_hears_nothing_is_refused(norm: str) -> None:
    pair = np.array([[1.0, 0.0], [-1.0, 0.0]])
    with refused("what is heard by token 0 is 0 at t = 0 and has no direction: change its start, or take another norm"):
        af.simulate(pair, af.Softmax(beta=0.0), af.SphereFlow(norm=norm), until=1.0)


# Two others pull the third to 0: x' = 1/3.
THREE = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
AT_ZERO = "where it has no direction; end earlier, or use norm='post'"


@pytest.mark.parametrize("until", [4, 9])
def test_layers_end_where_a_token_is_zero(until: int) -> None:
    motion, law = af.SphereLayers(dt=0.75, norm="pre"), af.Softmax(beta=0.0)
    run = af.simulate(THREE, law, motion, until=until)
    assert run.stopped == f"token 2 met 0 at step 4, {AT_ZERO}"
    np.testing.assert_array_equal(run.radii[-1], [1.75, 1.75, 0.25])
    with refused(f"token 2 met 0 at step 4, {AT_ZERO}"):
        af.ensemble(THREE[None], law, motion, until=until)


@pytest.mark.parametrize("name", ["torch", "jax.numpy"])
def test_layers_of_other_arrays_end_at_zero(name: str) -> None:
    # Three tokens pull a fourth: its steps of one half are exact in float32 too.
    start = pytest.importorskip(name).asarray([[1.0, 0.0]] * 3 + [[-1.0, 0.0]])
    run = af.simulate(start, af.Softmax(beta=0.0), af.SphereLayers(norm="pre"), until=9)
    assert run.stopped == f"token 3 met 0 at step 2, {AT_ZERO}"


def test_layers_end_where_radii_leave_the_range_of_float64() -> None:
    run = af.simulate(THREE, LAW, af.SphereLayers(V=1e300 * np.eye(2), norm="pre"), until=3)
    assert run.stopped == "token 0 left the range of float64 at step 1; shorten the run"
    np.testing.assert_array_equal(run.final, THREE)


PAIR = THREE[1:]


@pytest.mark.parametrize(
    ("start", "beta", "norm", "when"),
    [
        (PAIR, -3.0, "pre", 1 / np.tanh(3)), (PAIR, -3.0, "peri", 1.0), (PAIR, -3.0, "mix", 0.5 + 1 / np.tanh(3)),
        (THREE, 0.0, "pre", 3.0), (THREE[:, :1], 0.0, "pre", 3.0),
        (af.tokens.sphere(n=30, d=2, seed=2), -3.0, "pre", 1.2027),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rtol", [1e-9, 1e-4])
def test_flows_end_where_a_token_meets_zero(
    start: np.ndarray, beta: float, norm: str, when: float, rtol: float
) -> None:
    """Known times: a token and its antipode hear each other with weights that leave -tanh(3) theta."""
    motion = af.SphereFlow(norm=norm, rtol=rtol, **own(norm, tau=0.5))
    run = af.simulate(start, af.Softmax(beta=beta), motion, until=4.0)
    assert AT_ZERO in run.stopped
    assert "met 0 at t = " in run.stopped
    tol = max(2e-5, 10 * rtol)
    assert abs(float(run.stopped.split("t = ")[1].split(",")[0]) - when) < tol
    assert when - 100 * tol < run.times[-1] <= when + tol
    assert np.abs(np.linalg.norm(run.final, axis=1) - 1).max() < 1e-12
    assert rtol * 0.1 < run.radii[-1].min() < 0.1


def test_ensembles_and_longer_runs_end_at_zero_too(tmp_path: Path) -> None:
    law, motion = af.Softmax(beta=-3.0), af.SphereFlow(norm="pre")
    with refused(f"token 0 met 0 at t = 1.00497, {AT_ZERO}"):
        af.ensemble(PAIR[None], law, motion, until=3.0)
    ends = [af.simulate(PAIR, law, motion, until=end, store=tmp_path / "run.zarr") for end in (1.0, 2.0, 3.0)]
    ends.append(af.simulate(PAIR, law, motion, until=3.0))
    assert [run.stopped for run in ends[1:]] == [f"token 0 met 0 at t = 1.00497, {AT_ZERO}"] * 3
    np.testing.assert_array_equal(ends[2].radii, ends[3].radii)


def test_tokens_in_dask_have_no_radii() -> None:
    chunks = af.tokens.sphere(n=20, d=3, seed=0, chunks=10)
    with refused("SphereLayers.norm='pre'. moves tokens in memory, not those in Dask"):
        af.simulate(chunks, LAW, af.SphereLayers(norm="pre"), until=1)
    motion = af.SphereLayers(norm="ngpt", dt=0.5)
    parts: Any = af.simulate(chunks, LAW, motion, until=2).final
    whole = af.simulate(np.asarray(chunks), LAW, motion, until=2).final
    np.testing.assert_allclose(np.asarray(parts), whole, atol=1e-9)


@pytest.mark.parametrize("motion", [af.SphereFlow, af.SphereLayers])
def test_parameters_that_do_nothing_are_refused(motion: Any) -> None:
    with refused("tau was given, but does nothing with norm='post': leave it out, or use norm='mix'"):
        motion(tau=2.0)
    for alpha in (2.0, lambda t: 1.0):
        with refused("alpha was given, but does nothing with norm='mix': leave it out, or use norm='ngpt'"):
            motion(norm="mix", alpha=alpha)
    # The default is taken for a value that was not given, as the docstrings say.
    assert motion(tau=1.0, alpha=1.0).norm == "post"
    assert "other than 1, the default, is refused" in motion.__doc__
    assert (motion(norm="mix", tau=2.0).tau, motion(norm="ngpt", alpha=2.0).alpha) == (2.0, 2.0)


def test_other_refusals() -> None:
    with refused("dt must be one number"):
        af.SphereLayers(dt=lambda t: 1 / (t + 1), norm="cod")
    with refused("norm is 'both'"):
        af.SphereFlow(norm="both")
    with refused("use centred=False"):
        af.simulate(np.ones((2, 4)) / 2, LAW, af.SphereLayers(centred=True), until=1)
    with refused("leave norm out"):
        af.measure.phase_diagram([1.0], [0.0, 1.0], motion=af.SphereFlow(norm="pre"))
    run = af.simulate(X0, LAW, af.SphereFlow(norm="cod"), until=1.0)
    assert "SphereFlow(norm='cod'), whose speed depends on radii or on the time" in str(run.next_change)


def until(end: float, after: float = 0.0) -> Any:
    """Return a value matrix that is I until a time, and `after` times I from then on."""
    return lambda t: np.eye(3) if t < end else after * np.eye(3)


@pytest.mark.parametrize(
    ("motion", "end", "why"),
    [
        (af.SphereLayers(V=until(2), dt=0.5, norm="ngpt"), 5, "what is heard by token 0 is 0 at step 2 and has no dir"),
        (af.SphereLayers(V=until(2, after=-1.0)), 5, "token 0 met its antipode at step 2 and has no direction"),
        (af.Noisy(af.SphereLayers(V=until(2), norm="peri"), sigma=0.1), 5, "what is heard by token 0 is 0 at step 2"),
        (af.SphereFlow(V=until(0.5), norm="ngpt"), 1.0, "what is heard by token 0 is 0 at t = 0.5"),
        (af.Noisy(af.SphereFlow(V=until(0.5), norm="ngpt"), kappa=9.0, dt=0.1), 1.0, "is 0 at t = 0.5"),
    ],
    ids=["layers", "antipode", "noisy layers", "flow", "noisy flow"],
)
def test_runs_under_way_end_where_a_token_has_no_direction(motion: Any, end: float, why: str) -> None:
    start = np.array([[1.0, 0.0, 0.0]] * 2)
    run = af.simulate(start if "antipode" in why else X0, LAW, motion, until=end, seed=0)
    assert why in run.stopped
    assert len(run.times) >= 2
    assert 0.3 < run.times[-1] <= 2
    assert np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max() < 1e-12


def test_layers_of_other_arrays_end_where_nothing_is_heard() -> None:
    torch = pytest.importorskip("torch")
    run = af.simulate(torch.tensor(X0), LAW, af.SphereLayers(V=until(2), norm="ngpt"), until=5)
    assert run.stopped.startswith("what is heard by token 0 is 0 at step 2 and has no direction")
    assert run.tokens.shape[0] == 3


def test_layers_on_the_sphere_without_a_simple_flow_are_followed_themselves() -> None:
    for motion in (af.SphereLayers(dt=0.1, centred=True), af.SphereLayers(dt=lambda t: 0.1)):
        assert motion.long_run(1e-6) == (motion, 1.0)
    assert af.SphereLayers(dt=0.1).long_run(1e-6)[0].surface == "sphere"
