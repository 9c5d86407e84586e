"""Refutations, and one proof, as small files that a checker of its own verifies: `tools/check_certificate.py`."""

from attnflow.claims.certificates.certificate import Certificate, stored
from attnflow.claims.certificates.certify import certify
from attnflow.claims.certificates.runs import CertifiedRun

__all__ = ["Certificate", "CertifiedRun", "certify", "stored"]
