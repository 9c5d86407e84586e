"""The paper."""

from attnflow.claims.claim import Paper

FW = Paper("fw", "Alcalde, Geshkovski, Ruiz-Balet", "Attention's forward pass and Frank-Wolfe", "2508.09628")
