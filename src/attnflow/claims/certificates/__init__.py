"""Refutations as small files that a checker of its own verifies: `tools/check_certificate.py`."""

from attnflow.claims.certificates.certificate import Certificate, stored
from attnflow.claims.certificates.certify import certify

__all__ = ["Certificate", "certify", "stored"]
