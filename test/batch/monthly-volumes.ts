import {
  type MonthlyVolume,
  monthlyVolume,
  monthsTouchedBy,
  type VolumeObservation,
} from '../../src/batch/volumes/monthly-volume.ts'

/** Every month that the observations of one keyword and one source touch, oldest first. */
export function monthlyVolumes(observations: readonly VolumeObservation[]): MonthlyVolume[] {
  const months = new Set(observations.flatMap(monthsTouchedBy))
  return [...months].sort().map((month) => monthlyVolume(month, observations)!)
}
