"""A checker of certificates that knows nothing of attnflow: see tools/check_certificate.py."""
