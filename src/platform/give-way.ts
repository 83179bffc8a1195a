import { setPriority } from 'node:os'

/** On Linux a priority belongs to a thread: the one that calls this takes what the API leaves over. */
export function giveWay(): void {
  if (process.platform === 'linux') setPriority(10)
}
