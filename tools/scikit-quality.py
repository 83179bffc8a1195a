"""How good scikit-learn's HistGradientBoosting gets on an exported matrix: scikit-quality.py DIR [SEEDS] [ROUNDS].

The seed decides which rows make its bins, and which ones its early stopping is judged by. For every seed it tells the hold-out's
log-loss after ROUNDS rounds, at its best after any number of them (read on the rows it is judged by, a favour that our ladder does
not get), and where its own early stopping ends, as somebody would use it.
"""
import json
import sys

import numpy
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

folder = sys.argv[1]
seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 64
x, y = (numpy.ascontiguousarray(numpy.load(f"{folder}/train-{name}.npy")) for name in "xy")
later_x, later_y = (numpy.load(f"{folder}/holdout-{name}.npy") for name in "xy")
size = {"learning_rate": 0.1, "max_leaf_nodes": 31, "min_samples_leaf": 20}


def losses_of(model):
    return [log_loss(later_y, guess) for guess in model.fit(x, y).staged_predict_proba(later_x)]


told = []
for seed in range(1, seeds + 1):
    losses = losses_of(HistGradientBoostingClassifier(**size, max_iter=rounds, early_stopping=False, random_state=seed))
    stopped = losses_of(HistGradientBoostingClassifier(**size, max_iter=1000, early_stopping=True, random_state=seed))
    told.append({"rounds": losses[-1], "best": min(losses), "ownStop": stopped[-1]})
    print(json.dumps({"seed": seed, **told[-1], "bestAt": losses.index(min(losses)) + 1, "stoppedAt": len(stopped)}), flush=True)
print(json.dumps({f"mean {name}": numpy.mean([one[name] for one in told]) for name in told[0]}))
