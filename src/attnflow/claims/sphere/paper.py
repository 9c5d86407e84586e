"""The papers."""

from attnflow.claims.claim import Paper

SPHERE = Paper(
    "sphere", "Geshkovski, Letrouit, Polyanskiy, Rigollet", "A mathematical perspective on Transformers", "2312.10794"
)
METASTABLE = Paper(
    "sphere", "Geshkovski, Koubbi, Polyanskiy, Rigollet", "Dynamic metastability in the self-attention model",
    "2410.06833",
)  # fmt: skip
