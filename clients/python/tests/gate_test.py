"""The gate's arithmetic against scipy, statsmodels and confseq, on 1,000 random inputs and on whole verdicts.

Python makes the inputs and what it expects of them; `millrace gate check` says whether Go agrees.
"""

import json
import math
import random
import subprocess

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import statsmodels.api as sm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

from conftest import ROOT

SEED = 20260105


@pytest.fixture(scope="session")
def millrace(tmp_path_factory):
    binary = tmp_path_factory.mktemp("bin") / "millrace"
    subprocess.run(["go", "build", "-buildvcs=false", "-o", str(binary), "./cmd/millrace"], cwd=ROOT, check=True)

    def run(*arguments):
        return subprocess.run([str(binary), *arguments], capture_output=True, text=True)

    return run


def check(millrace, folder, cases):
    """Holds the cases against Go, and that one of them moved by a little is found."""
    file = folder / "cases.json"
    file.write_text(json.dumps(cases))
    done = millrace("gate", "check", str(file), "-o", "json")
    results = json.loads(done.stdout)
    off = [r for r in results if r["status"] != "agrees"]
    assert not off, off[:5]
    assert done.returncode == 0, done.stderr
    assert len(results) == len(cases)

    key, value = next(iter(cases[-1]["expected"].items()))
    moved = np.asarray(value, dtype=float) + 10 * cases[-1]["tol"]
    file.write_text(json.dumps(cases[:-1] + [cases[-1] | {"expected": {key: moved.tolist()}}]))
    done = millrace("gate", "check", str(file))
    assert done.returncode == 1
    assert cases[-1]["name"] in done.stdout


def case(name, i, inputs, expected, tol=1e-8):
    return {"name": f"{name}/{i}", "input": inputs, "expected": expected, "tol": tol}


def sessions(rng):
    """Two arms of users with sessions that hang together: rows of (arm, user, value) and the sums of each user."""
    rows, arms = [], []
    for arm in range(2):
        users = []
        for user in range(rng.randint(12, 40)):
            rate = rng.betavariate(2, 2)
            values = [float(rng.random() < rate) for _ in range(1 + int(rng.expovariate(.5)))]
            rows += [(arm, (arm, user), v) for v in values]
            users.append([sum(values), float(len(values))])
        arms.append(users)
    return rows, arms


def ratios(rng, i):
    """A ratio over clusters is the mean of the rows, its variance the cluster-robust one of ordinary least squares."""
    rows, arms = sessions(rng)
    groups = {user: n for n, user in enumerate(dict.fromkeys(user for _, user, _ in rows))}
    expected = {}
    of_arm = []
    for arm in range(2):
        y = np.array([v for a, _, v in rows if a == arm])
        g = np.array([groups[user] for a, user, _ in rows if a == arm])
        fit = sm.OLS(y, np.ones_like(y)).fit(cov_type="cluster", cov_kwds={"groups": g, "use_correction": False})
        k = len(arms[arm])
        of_arm.append((fit.params[0], fit.cov_params()[0, 0] * k / (k - 1)))
    (c, vc), (t, vt) = of_arm
    expected = {
        "value": [c, t],
        "var": [vc, vt],
        "absolute": [t - c, math.sqrt(vc + vt)],
        "relative": [(t - c) / abs(c), math.sqrt(vt / c**2 + vc * t**2 / c**4)],
        "log_ratio": [math.log(t / c), math.sqrt(vt / t**2 + vc / c**2)],
        "log_mean": [math.exp(t - c) - 1, math.exp(t - c) * math.sqrt(vc + vt)],
    }
    return case("ratio_of_clusters", i, {"control": arms[0], "treatment": arms[1]}, expected)


def arm(rng):
    x = np.array([rng.gauss(5, 2) for _ in range(rng.randint(20, 60))])
    return x, {"n": len(x), "sum": x.sum(), "sum_squares": (x * x).sum()}


def welch(rng, i):
    """scipy's Welch test knows no relative lift, but the degrees of freedom and the law are its own."""
    (x, control), (y, treatment) = arm(rng), arm(rng)
    vx, vy = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    effect = (y.mean() - x.mean()) / x.mean()
    se = math.sqrt(vy / x.mean() ** 2 + vx * y.mean() ** 2 / x.mean() ** 4)
    law = scipy.stats.t(scipy.stats.ttest_ind(y, x, equal_var=False).df)
    alpha = rng.choice([.01, .05, .1])
    half = law.isf(alpha) * se
    expected = {"effect": effect, "se": se, "lower": effect - half, "upper": effect + half, "p_greater": law.sf(effect / se), "p_less": law.cdf(effect / se)}
    return case("gb_one_sided_relative", i, {"control": control, "treatment": treatment, "alpha": alpha}, expected)


def counts(rng):
    n1, n2 = rng.randint(50, 5000), rng.randint(50, 5000)
    return {"x1": rng.randint(5, n1 - 5), "n1": n1, "x2": rng.randint(5, n2 - 5), "n2": n2}


def pooled(rng, i):
    c = counts(rng)
    z, p = proportions_ztest([c["x1"], c["x2"]], [c["n1"], c["n2"]])
    return case("statsmodels_ztest_pooled", i, c, {"z": z, "p": p})


def difference(name, method, compare):
    def make(rng, i):
        c = counts(rng)
        low, high = confint_proportions_2indep(c["x1"], c["n1"], c["x2"], c["n2"], method=method, compare=compare, correction=False)
        return case(name, i, c, {"ci": [low, high]}, 1e-7)

    return make


def holm(rng, i):
    p = [rng.random() ** 3 for _ in range(rng.randint(2, 12))]
    return case("holm_pairwise_smokers", i, {"p": p}, {"holm": multipletests(p, method="holm")[1].tolist()})


def chi2(rng, i):
    arms = rng.randint(2, 4)
    weights = [1 / arms] * arms
    n = [rng.randint(100, 100 + 10 ** rng.randint(1, 4)) for _ in range(arms)]
    expected = np.array(weights) * sum(n)
    return case("gb_srm_1", i, {"counts": n, "weights": weights}, {"p": scipy.stats.chisquare(n, expected).pvalue})


def sequential_split(rng, i):
    """The mixture's likelihood ratio is that of two laws that scipy has."""
    k, n = rng.choice([100, 1000]), rng.randint(200, 50_000)
    x = rng.randint(int(.48 * n), int(.52 * n))
    c = [x, n - x]
    log = scipy.stats.multinomial.logpmf(c, n, [.5, .5]) - scipy.stats.dirichlet_multinomial.logpmf(c, [k / 2, k / 2], n)
    chi = scipy.stats.chisquare(c).pvalue
    return case("ssrm_vs_chi2", i, {"theta0": [.5, .5], "k": k, "counts": [c]}, {"p_ssrm": [min(1, math.exp(log))], "p_chi2": [chi]}, 1e-7)


def rho(rng, i):
    a, n = rng.choice([.1, .05, .01, .001]), rng.randint(10, 10**6)
    exact = (-scipy.special.lambertw(-a * a / math.e, -1).real - 1) / n
    return case("drconfseq_rho2_exact_vs_approx", i, {"pairs": [[a, n]]}, {"rho2_exact": [exact]}, 1e-9)


def sequence(rng, i):
    """The one-sided sequence, its radius found as the root of the mixture of half-normal laws and not by its formula."""
    (x, control), (y, treatment) = arm(rng), arm(rng)
    alpha, planned = rng.choice([.05, .01, .00125]), rng.randint(50, 5000)
    n = len(x) + len(y)
    a = 2 * alpha
    v = n * (-2 * math.log(a) + math.log(1 - 2 * math.log(a))) / planned
    # ∫ over one side of a normal prior bounds the martingale from below: sqrt(v+1)/(2 expm1(z² v / 2(v+1))) = alpha.
    z = scipy.optimize.brentq(lambda z: math.sqrt(v + 1) / (2 * math.expm1(z * z * v / (2 * (v + 1)))) - alpha, 1e-6, 36 * math.sqrt((v + 1) / v))
    effect = y.mean() - x.mean()
    se = math.sqrt(x.var(ddof=1) / len(x) + y.var(ddof=1) / len(y))
    inputs = {"control": control, "treatment": treatment, "alpha": alpha, "n_star": planned}
    return case("gb_sequential_one_sided_absolute", i, inputs, {"lower": effect - z * se, "upper": effect + z * se}, 1e-7)


def ranks(rng, i):
    n = rng.sample(range(1000), rng.randint(6, 24))
    cut = rng.randint(3, len(n) - 3)
    a, b = n[:cut], n[cut:]
    less = scipy.stats.mannwhitneyu(a, b, alternative="less", method="exact")
    both = scipy.stats.mannwhitneyu(a, b, method="exact")
    return case("gomoremath_mw_small_exact", i, {"a": a, "b": b}, {"U": less.statistic, "p_less": less.pvalue, "p": both.pvalue})


def percentile(rng, i):
    x, p = [rng.expovariate(1) for _ in range(rng.randint(2, 50))], [rng.uniform(0, 100) for _ in range(3)]
    return case("kayenta_percentile_linear", i, {"x": x, "p": p}, {"q": np.percentile(x, p).tolist()})


KINDS = [
    (ratios, 200), (welch, 100), (pooled, 100), (difference("propcis_wald_diff", "wald", "diff"), 50),
    (difference("propcis_agresti_caffo", "agresti-caffo", "diff"), 50), (difference("fagerland_katz_ratio", "log", "ratio"), 50),
    (holm, 50), (chi2, 50), (sequential_split, 150), (rho, 50), (sequence, 100), (ranks, 25), (percentile, 25),
]


def test_a_thousand_random_inputs(millrace, tmp_path):
    rng = random.Random(SEED)
    cases = [make(rng, i) for make, number in KINDS for i in range(number)]
    assert len(cases) == 1000
    check(millrace, tmp_path, cases)


def test_confidence_sequences(millrace, tmp_path):
    """confseq has no wheels: confseq.sh builds it where there are a C++ compiler and Boost's headers."""
    boundaries = pytest.importorskip("confseq.boundaries", reason="confseq isn't built here: clients/python/confseq.sh builds it")
    quantiles = pytest.importorskip("confseq.quantiles")
    rng = random.Random(SEED)
    cases = []
    for i in range(100):
        v, v_opt, alpha = rng.uniform(10, 1e4), rng.uniform(10, 1e4), rng.choice([.1, .05, .01])
        s = rng.uniform(-1, 4) * math.sqrt(v)
        two = {"s": s, "v": v, "v_opt": v_opt, "alpha": alpha, "alpha_opt": alpha}
        cases.append(case("confseq_two_sided_normal_mixture", i, two, {
            "log_mixture": boundaries.normal_log_mixture(s, v, v_opt, alpha, is_one_sided=False),
            "bound": boundaries.normal_mixture_bound(v, alpha, v_opt, alpha, is_one_sided=False),
        }, 1e-6))
        cases.append(case("confseq_one_sided_normal_mixture", i, two, {
            "log_mixture": boundaries.normal_log_mixture(s, v, v_opt, alpha, is_one_sided=True),
            "bound": boundaries.normal_mixture_bound(v, alpha, v_opt, alpha, is_one_sided=True),
        }, 1e-5))
        g = rng.uniform(.1, .9)
        cases.append(case("confseq_beta_binomial_two_sided", i, two | {"s": 0, "g": g, "h": 1 - g}, {
            "log_mixture": boundaries.beta_binomial_log_mixture(0, v, v_opt, g, 1 - g, alpha, is_one_sided=False),
            "bound": boundaries.beta_binomial_mixture_bound(v, alpha, v_opt, g, 1 - g, alpha, is_one_sided=False),
        }, 1e-5))
        cases.append(case("confseq_poly_stitching", i, {"v": v, "alpha": alpha, "v_min": 10, "c": [0, 1]}, {
            "bound": [boundaries.poly_stitching_bound(v, alpha, 10, c) for c in (0, 1)],
        }, 1e-6))
        p, t = rng.uniform(.02, .98), rng.randint(100, 10_000)
        cases.append(case("confseq_quantile_double_stitching", i, {"t": t, "alpha": alpha, "t_opt": 100, "p": [p]}, {
            "bound": [quantiles.double_stitching_bound(p, t, alpha, 100)],
        }, 1e-6))
    check(millrace, tmp_path, [c | {"expected": {k: np.asarray(x).tolist() for k, x in c["expected"].items()}} for c in cases])


def test_verdicts(millrace, tmp_path):
    """Whole verdicts: every bound of `gate evaluate` is made again from the buckets."""
    rng = np.random.default_rng(SEED)
    scales = {"kept_edits": ("relative", 1), "edit_rate": ("relative", 1), "latency": ("log", -1), "malformed_calls": ("log_ratio", -1)}
    policy = {
        "kind": "GatePolicy", "name": "test", "version": 1, "mode": "improve", "success": ["kept_edits"],
        "guardrails": [{"metric": "edit_rate", "margin": .02}, {"metric": "latency", "margin": .02}],
        "harm": [{"metric": name, "margin": .05} for name in scales], "planned_units": 4000, "min_units": 200,
    }
    for ended in (True, False):
        sums = {name: [buckets(rng, scale) for _ in range(2)] for name, (scale, _) in scales.items()}
        evidence = {
            "experiment": "exp-1", "candidate": "ckpt-2", "starts_at": "2026-01-05T01:15:00Z", "ends_at": "2026-01-05T04:40:00Z",
            "committed_through": "2026-01-05T04:40:00Z" if ended else "2026-01-05T03:00:00Z",
            "metrics": {name: {"control": c, "candidate": t} for name, (c, t) in sums.items()},
            "exposed_units": {"control": 2000, "candidate": 2000},
        }
        file = tmp_path / "record.json"
        file.write_text(json.dumps({"policy": policy, "evidence": evidence}))
        done = millrace("gate", "evaluate", str(file), "-o", "json")
        assert done.returncode == 0, done.stderr
        tests = 0
        for finding in json.loads(done.stdout)["metrics"]:
            scale, sign = scales[finding["metric"]]
            (c, vc, kc), (t, vt, kt) = (estimate(s) for s in sums[finding["metric"]])
            if scale == "relative":
                lift, se, back = (t - c) / c, math.sqrt(vt / c**2 + vc * t**2 / c**4), lambda x: x
            elif scale == "log":
                lift, se, back = sign * (t - c), math.sqrt(vc + vt), lambda x: -math.expm1(-x)
            else:
                lift, se, back = sign * math.log(t / c), math.sqrt(vt / t**2 + vc / c**2), lambda x: -math.expm1(-x)
            n = sum(min(2000, -4096 * math.log1p(-k / 4096)) for k in (kc, kt))
            for test in finding["tests"]:
                tests += 1
                factor = {
                    "win": scipy.stats.norm.isf(.02),
                    "guardrail": scipy.stats.norm.isf(.05),
                    "early_win": radius(.005, 4000, n),
                    "early_guardrail": radius(.005, 4000, n),
                    "harm": radius(.01 / 4, 1000, n),
                }[test["name"]]
                assert test["factor"] == pytest.approx(factor, rel=1e-9)
                bound = back(lift + factor * se) if test["name"] == "harm" else back(lift - factor * se)
                assert test["bound"] == pytest.approx(bound, rel=1e-8, abs=1e-10), (finding["metric"], test)
        assert tests == 2 + 2 * 2 + 4


def buckets(rng, scale):
    """Buckets of whole units, in millionths: rates, or logarithms of seconds."""
    out = []
    for bucket in rng.choice(4096, size=1500, replace=False):
        den = int(rng.integers(1, 9))
        if scale == "log":
            num = rng.normal(3, .9, den).sum()
        else:
            num = (rng.random(den) < rng.beta(2, 2)).sum()
        out.append([int(bucket), int(num * 1e6), den * 1_000_000])
    return out


def estimate(sums):
    num, den = np.array([s[1] for s in sums]) / 1e6, np.array([s[2] for s in sums]) / 1e6
    r, k = num.sum() / den.sum(), len(sums)
    return r, ((num - r * den) ** 2).sum() / ((k - 1) * k * den.mean() ** 2), k


def radius(alpha, planned, n):
    a = 2 * alpha
    v = n * (-2 * math.log(a) + math.log(1 - 2 * math.log(a))) / planned
    return math.sqrt(2 * (v + 1) / v * math.log(1 + math.sqrt(v + 1) / (2 * alpha)))
