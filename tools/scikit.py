"""Trains scikit-learn's HistGradientBoosting on an exported matrix, on one thread: scikit.py DIR ROUNDS [EVERY_NTH_ROW].

Beside the loss after all rounds it tells the least loss after any number of rounds. That one is read on the rows it is judged by, which
is a favour that our own ladder does not get.
"""
import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

folder, rounds = sys.argv[1], int(sys.argv[2])
nth = int(sys.argv[3]) if len(sys.argv) > 3 else 1
x, y = (numpy.load(f"{folder}/train-{name}.npy")[::nth] for name in "xy")
later_x, later_y = (numpy.load(f"{folder}/holdout-{name}.npy") for name in "xy")
x = numpy.ascontiguousarray(x)
model = HistGradientBoostingClassifier(
    max_iter=rounds, learning_rate=0.1, max_leaf_nodes=31, min_samples_leaf=20, early_stopping=False
)
started = time.process_time()
model.fit(x, y)
seconds = time.process_time() - started
losses = [log_loss(later_y, guess) for guess in model.staged_predict_proba(later_x)]
best = min(losses)
print(
    json.dumps(
        {
            "rows": len(y),
            "cpuSeconds": seconds,
            "logLoss": losses[-1],
            "best": {"logLoss": best, "rounds": losses.index(best) + 1},
        }
    )
)
