"""The theorems of the field as objects: checked on data, attacked by search.

>>> import attnflow as af
>>> af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700).outcome
'violated'
"""

import sys

from attnflow.claims import (
    causal,
    emergence,
    frank_wolfe,
    gaussian,
    hardmax,
    localmax,
    long_context,
    mean_field,
    neural_ode,
    noise,
    normalisation,
    perceptron,
    random_weights,
    rope,
    sinkformers,
    sphere,
)
from attnflow.claims.certificates import Certificate, CertifiedRun, certify, stored
from attnflow.claims.check import check
from attnflow.claims.claim import Claim, Paper, Setting, all, get
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins
from attnflow.claims.search import search
from attnflow.claims.verdict import Verdict
from attnflow.claims.witness import Witness
from attnflow.core import calls

__all__ = [
    "Certificate",
    "CertifiedRun",
    "Claim",
    "Experiment",
    "Margins",
    "Paper",
    "Setting",
    "Verdict",
    "Witness",
    "all",
    "causal",
    "certify",
    "check",
    "emergence",
    "frank_wolfe",
    "gaussian",
    "get",
    "hardmax",
    "localmax",
    "long_context",
    "mean_field",
    "neural_ode",
    "noise",
    "normalisation",
    "perceptron",
    "random_weights",
    "rope",
    "search",
    "sinkformers",
    "sphere",
    "stored",
]

calls.speak(sys.modules[__name__])
