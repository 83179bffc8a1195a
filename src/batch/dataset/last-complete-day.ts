import { addDays, type Day, dayOf } from '../../platform/time.ts'

/**
 * Today's ranks still come in, and somebody whose clock runs ahead tells of tomorrow. A model that had seen some of them
 * could not be made again, and what they say of a prediction is not the last word.
 */
export function lastCompleteDay(app: { clock(): Date; timeZone: string }): Day {
  return addDays(dayOf(app.clock(), app.timeZone), -1)
}
