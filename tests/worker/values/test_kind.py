import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.kind import derive_kind

GOLDEN = {
    "SendEmail": "send_email",
    "SMTPEmail": "smtp_email",
    "OAuthRefresh": "o_auth_refresh",
    "PDFRenderJob": "pdf_render_job",
    "ProcessV2Import": "process_v2_import",
    "HTMLToPDF": "html_to_pdf",
    "IOError": "io_error",
    "ReconcileQ3Revenue": "reconcile_q3_revenue",
    "Resize": "resize",
    "already_snake": "already_snake",
    "A": "a",
}


@pytest.mark.parametrize(("type_name", "kind"), GOLDEN.items())
def test_kind_is_the_snake_case_of_the_type_name(type_name: str, kind: str) -> None:
    assert derive_kind(type_name) == kind


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,30}", fullmatch=True))
def test_kind_of_a_kind_is_itself(type_name: str) -> None:
    kind = derive_kind(type_name)
    assert derive_kind(kind) == kind
    assert kind.replace("_", "") == type_name.lower().replace("_", "")
