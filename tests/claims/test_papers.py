"""Papers: what lists of claims call them."""

from attnflow.claims.claim import Paper


def test_the_heading_of_a_paper_is_its_title_unless_a_shorter_one_is_given() -> None:
    assert Paper("x", "A. Author", "A long title", "1").heading == "A long title"
    assert Paper("x", "A. Author", "A long title", "1", heading="Short").heading == "Short"
