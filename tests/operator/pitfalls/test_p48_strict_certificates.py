"""P48: an authority without key usage or key identifiers is taken; a wrong one is refused."""

import asyncio
import shutil
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from support.operating import Site
from support.tls_front import TlsFront

pytestmark = pytest.mark.timeout(300)


def make_authority(folder: Path, name: str) -> tuple[Path, Path]:
    """Make an authority without any extension but that it is one."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    config = folder / f"{name}.cnf"
    config.write_text(
        "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n"
        f"[dn]\nCN={name}\n[ext]\nbasicConstraints=CA:TRUE\n"
    )
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config", str(config),
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip
    return key, certificate


def make_certificate(folder: Path, authority: tuple[Path, Path]) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that names no key of its authority."""
    key, request, certificate = folder / "s.key", folder / "s.csr", folder / "s.crt"
    extensions = folder / "s.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(request),
        "-subj", "/CN=api",
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", str(request), "-CA", str(authority[1]), "-CAkey", str(authority[0]),
        "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate),
    )  # fmt: skip
    return key, certificate


def _openssl(*words: str) -> None:
    subprocess.run([shutil.which("openssl") or "openssl", *words], check=True, capture_output=True)


async def test_p48_an_authority_without_key_usage_is_taken_by_watches_and_requests(
    site: Site, database, tmp_path
):
    await asyncio.to_thread(site.secret, database)
    authority = make_authority(tmp_path, "plain")
    key, certificate = make_certificate(tmp_path, authority)
    with site.api_proxy() as proxy, TlsFront(proxy.port, key, certificate) as front:
        # Python itself would refuse it.
        strict = ssl.create_default_context(cafile=str(authority[1]))
        strict.verify_flags |= ssl.VERIFY_X509_STRICT
        with pytest.raises(ssl.SSLCertVerificationError):
            front.greet(strict)
        operator = await site.start(front.address, authority=authority[1]).until_leads()
        await asyncio.to_thread(site.queue)
        await site.until_deployed()
        assert operator.is_alive
        operator.kill()


async def test_p48_a_wrong_authority_is_refused_and_said(site: Site, tmp_path):
    right, wrong = make_authority(tmp_path, "right"), make_authority(tmp_path, "wrong")
    key, certificate = make_certificate(tmp_path, right)
    with site.api_proxy() as proxy, TlsFront(proxy.port, key, certificate) as front:
        operator = site.start(front.address, authority=wrong[1])
        await site.until(
            lambda: "certificate" in operator.log.read_text().lower(),
            timedelta(seconds=20),
            "it says that the certificate is not trusted",
        )
        assert not operator.ready().get("ready")
        assert proxy.seen == []
        # Else it would go on with handshakes while the front ends.
        operator.kill()
