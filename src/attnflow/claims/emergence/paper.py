"""The paper."""

from attnflow.claims.claim import Paper

EMERGENCE = Paper(
    "emergence",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet",
    "The emergence of clusters in self-attention dynamics",
    "2305.05465",
)
