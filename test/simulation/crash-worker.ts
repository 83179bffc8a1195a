import { type Crashes, crashEverywhere, nameOf } from './crash-run.ts'
import type { Worker } from './crew.ts'
import { openStage } from './stage.ts'
import { courses } from './uses.ts'

/** A course by its name, and the one place to die at if not at all of them. */
export type CrashTask = { readonly course: string; readonly seed: number; readonly at?: number | undefined }

/** Runs courses on a stage of its own. */
export async function openCrashWorker(serverUrl: string): Promise<Worker<CrashTask, Crashes>> {
  const stage = await openStage(serverUrl)
  return {
    work({ course, seed, at }) {
      return crashEverywhere(stage, courses.find((one) => nameOf(one) === course)!, seed, { at })
    },
    close: stage.close,
  }
}
