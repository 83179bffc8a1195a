"""Trains scikit-learn's HistGradientBoosting on an exported matrix, on one thread: scikit.py DIR ROUNDS [EVERY_NTH_ROW]."""
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
loss = log_loss(later_y, model.predict_proba(later_x))
print(json.dumps({"rows": len(y), "cpuSeconds": seconds, "logLoss": loss}))
