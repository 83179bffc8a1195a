import Type from 'typebox'
import { type Job, job } from '../platform/queue/queue.ts'
import type { BatchApp } from './app.ts'
import { predictRanks } from './predictions/predict-ranks.ts'
import { workAggregation } from './runs/work-aggregation.ts'
import { collectRanks } from './tracking/collect-ranks.ts'
import { collectVolumes } from './tracking/volumes/collect-volumes.ts'
import { trainClassifier } from './training/train-classifier.ts'

const ofRun = Type.Object({ runId: Type.String() })

/** Everything batch does in the background. */
export const batchJobs: Readonly<Record<string, Job<BatchApp>>> = {
  'batch.aggregate-volumes': job(ofRun, workAggregation),
  'batch.train-classifier': job(ofRun, trainClassifier),
  'batch.predict-ranks': job(ofRun, predictRanks),
  'batch.collect-ranks': job(ofRun, collectRanks),
  'batch.collect-volumes': job(ofRun, collectVolumes),
}
