import { createHash } from 'node:crypto'

/** What a client asked and what came back; null while nobody answered, because the process died or hangs. */
export type RequestEntry = {
  readonly kind: 'request'
  readonly step: number
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly key: string | undefined
  readonly process: string
  /** Service time and real time at which it was asked, in milliseconds. */
  readonly at: number
  readonly realAt: number
  /** The last moment at which it may have had an effect; absent where a request takes no time. */
  ended?: { readonly step: number; readonly at: number; readonly realAt: number }
  answer: { status: number; text: string; replayed: boolean } | null
  /** The provider's adapter blew up on the way, so that 500 is a fair answer. */
  exploded: boolean
}

/** A notification of the provider and whether it was acknowledged. */
export type DeliveryEntry = {
  readonly kind: 'delivery'
  readonly step: number
  readonly eventId: string
  readonly reference: string
  readonly type: string
  readonly forged: boolean
  /** It came unsigned, by the path of hints. */
  readonly hint?: {
    readonly forgery: HintForgery | null
    /** How many calls had reached the provider when it was answered. */
    heardAfter: number | null
  }
  answer: { status: number; text: string } | null
}

/** A wrong secret in the path, a payment that nobody has, or another payment than the one something happened to. */
export type HintForgery = 'wrong secret' | 'nobody' | 'another payment'

/** The database went back to an earlier copy: what happened in between is forgotten, but for what was kept elsewhere. */
export type RestoreEntry = {
  readonly kind: 'restore'
  readonly step: number
  /** The last step that the copy knows, and service time then. */
  readonly since: number
  readonly from: number
  readonly at: number
  /** Payments of the provider that fit nowhere in the copy: their subscription began later, or its terms did. */
  readonly unplaced: ReadonlySet<string>
  /** Payments that were taken over. */
  readonly adopted: ReadonlySet<string>
  /** Payments whose outcome the copy did not know. */
  readonly inDoubt: ReadonlySet<string>
}

export type Entry =
  | RequestEntry
  | DeliveryEntry
  | { readonly kind: 'time'; readonly step: number; readonly now: string; readonly real: number }
  | { readonly kind: 'death'; readonly step: number; readonly process: string; readonly boundary: string }
  | { readonly kind: 'fault'; readonly step: number; readonly call: string; readonly fault: string }
  | { readonly kind: 'work'; readonly step: number; readonly what: string; readonly outcome: string }
  | RestoreEntry

/** All that happened in one run, in order. */
export type History = {
  readonly entries: Entry[]
  add<E extends Entry>(entry: E): E
  requests(): RequestEntry[]
  deliveries(): DeliveryEntry[]
}

export function openHistory(): History {
  const entries: Entry[] = []
  return {
    entries,
    add(entry) {
      entries.push(entry)
      return entry
    },
    requests: () => entries.filter((entry) => entry.kind === 'request'),
    deliveries: () => entries.filter((entry) => entry.kind === 'delivery'),
  }
}

/** One number for a run. Ids are chance, so each counts by when it was first seen. */
export function hashOf(parts: readonly unknown[]): string {
  return createHash('sha256')
    .update(inOrderOfAppearance(JSON.stringify(parts, plainBigint)))
    .digest('hex')
    .slice(0, 16)
}

/** A few lines that tell how it ended. */
export function tailOf(history: History, lines: number): string {
  return history.entries
    .slice(-lines)
    .map((entry) => `  ${inLine(entry)}`)
    .join('\n')
}

function inLine(entry: Entry): string {
  const { kind, step } = entry
  const at = `#${step} ${kind}`
  switch (kind) {
    case 'request': {
      const answer = entry.answer ? `${entry.answer.status} ${entry.answer.text.slice(0, 400)}` : 'no answer'
      const key = entry.key === undefined ? '' : ` key ${entry.key}`
      return `${at} ${entry.process} ${entry.method} ${entry.path} ${JSON.stringify(entry.body ?? null)}${key} → ${answer}`
    }
    case 'delivery':
      return `${at} ${entry.type} of ${entry.reference} → ${entry.answer?.status ?? 'no answer'}`
    case 'time':
      return `${at} ${entry.now}`
    case 'death':
      return `${at} of ${entry.process} ${entry.boundary}`
    case 'fault':
      return `${at} ${entry.call}: ${entry.fault}`
    case 'work':
      return `${at} ${entry.what}: ${entry.outcome}`
    case 'restore':
      return `${at} of step ${entry.since}`
  }
}

// A reference follows from the ids of its place, and the provider's own id from the reference.
const idForm =
  /(?:\b|(?<=\bprov_))(?:(?:sub|inv|pay|pm|ref|req|evt)_[0-9a-hjkmnp-tv-z]{26}|rl_[0-9a-f]{40})\b/g

function inOrderOfAppearance(text: string): string {
  const names = new Map<string, string>()
  return text.replace(idForm, (id) => {
    const known = names.get(id)
    if (known !== undefined) return known
    const name = `${id.slice(0, id.indexOf('_'))}#${names.size}`
    names.set(id, name)
    return name
  })
}

function plainBigint(_name: string, value: unknown): unknown {
  if (value instanceof Set) return value.size
  return typeof value === 'bigint' ? `${value}` : value
}
