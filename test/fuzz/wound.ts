import type { Random } from '../simulation/random.ts'
import type { Scene } from './scene.ts'
import type { Draft } from './sound-request.ts'

/** Spoils one thing of a sound request. False: this request has no such thing, and is as sound as before. */
export type Wound = (random: Random, draft: Draft, scene: Scene) => boolean

export function setHeader(draft: Draft, name: string, value: string): void {
  draft.headers = [...draft.headers.filter(([known]) => known !== name), [name, value]]
}

export function dropHeader(draft: Draft, name: string): void {
  draft.headers = draft.headers.filter(([known]) => known !== name)
}
