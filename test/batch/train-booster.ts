import type { Examples } from '../../src/batch/dataset/examples.ts'
import { type BoosterSettings, growAlone, openBooster } from '../../src/batch/learning/gbdt.ts'
import type { Watch } from '../../src/batch/learning/watch.ts'
import type { Boosted } from '../../src/batch/models/model.ts'

/** A whole booster in one call. */
export function trainBooster(
  examples: Examples,
  classes: number,
  settings: BoosterSettings,
  watch: Watch = {},
): Boosted {
  return growAlone(openBooster(examples, classes, settings), settings.rounds, watch).model()
}
