import type { platformEvents } from '../../src/platform/log/events.ts'
import type { Log } from '../../src/platform/log/log.ts'
import type { Planted } from './planted-secrets.ts'

export const probeEvents = {
  'probe.seen': {
    route: 'text',
    request_id: 'id',
    ids: 'ids',
    count: 'int',
    ratio: 'number',
    digest: 'hash',
    error: 'error',
  },
} as const

export type ProbeLog = Log<typeof probeEvents & typeof platformEvents>

/** A way for a secret to reach an output. The types are set aside: callers in a hurry do that too. */
export type Carrier = { readonly isNamed: boolean; carry(log: ProbeLog, planted: Planted): void }

const seen = (log: ProbeLog, fields: unknown) => log.info('probe.seen', fields as never)

export const carriers: Record<string, Carrier> = {
  'a registered text': free((log, { sentence }) => seen(log, { route: sentence })),
  'a registered text, bare': bare((log, { spelled }) => seen(log, { route: spelled })),
  'a registered id, bare': bare((log, { spelled }) =>
    seen(log, { request_id: spelled, ids: ['ws_a', spelled], digest: spelled }),
  ),
  'a registered id': free((log, { sentence }) => seen(log, { request_id: sentence, ids: [sentence] })),
  'a number': bare((log, { traces }) =>
    seen(log, /^[1-9]\d{11,15}$/.test(traces[0]!) ? { count: Number(traces[0]) } : {}),
  ),
  'an unknown field': free((log, { sentence }) => seen(log, { sentence })),
  'a sensitive field': named((log, { key, spelled }) => seen(log, { [key]: spelled })),
  'an event name': free((log, { sentence }) => log.info(sentence as 'probe.seen', {})),
  'a key': free((log, { sentence }) => seen(log, { meta: { [sentence]: true } })),
  'a nested key': named((log, { key, spelled }) => seen(log, { body: { customer: [{ [key]: spelled }] } })),
  'a nested list': named((log, { key, spelled }) =>
    seen(log, { body: { [key]: [spelled, { deep: spelled }] } }),
  ),
  'JSON in a string': named((log, { key, spelled }) =>
    seen(log, { body: `{"ok":true,"${key}":${JSON.stringify(spelled)}}` }),
  ),
  'JSON in JSON in a string': named((log, { key, spelled }) =>
    seen(log, { body: JSON.stringify({ raw: JSON.stringify({ a: [{ [key]: spelled }] }) }) }),
  ),
  'a query string': named((log, { key, spelled }) =>
    seen(log, { url: `/api/x?a=b&${encodeURIComponent(key)}=${encodeURIComponent(spelled)}&c=d` }),
  ),
  'a form': named((log, { key, spelled }) =>
    seen(log, { body: `a=b&card%5B${key}%5D=${encodeURIComponent(spelled)}` }),
  ),
  'a flat header list': named((log, { key, spelled }) => seen(log, { headers: ['host', 'x', key, spelled] })),
  'header pairs': named((log, { key, spelled }) =>
    seen(log, {
      headers: [
        [key, spelled],
        ['host', 'x'],
      ],
    }),
  ),
  'header objects': named((log, { key, spelled }) => seen(log, { headers: [{ name: key, value: spelled }] })),
  'header lines': named((log, { key, spelled }) =>
    seen(log, { head: `host: x\r\n${key}: ${spelled.replaceAll('\n', ' ')}\r\naccept: y` }),
  ),
  'an error message': free((log, { sentence }) => log.error('probe.seen', { error: new Error(sentence) })),
  'the cause of an error': free((log, { sentence }) =>
    log.error('probe.seen', { error: new Error('outer', { cause: new RangeError(sentence) }) }),
  ),
  'parts of an error': free((log, { sentence }) =>
    log.error('probe.seen', { error: new AggregateError([new Error(sentence)], sentence) }),
  ),
  'properties of an error': free((log, { sentence }) =>
    log.error('probe.seen', {
      error: Object.assign(new Error('x'), { name: sentence, code: sentence, detail: sentence }),
    }),
  ),
  'a stack made of the message': free((log, { sentence }) =>
    log.error('probe.seen', { error: new Error(`x\n    at f (${process.cwd()}/${sentence}.ts:1:1)`) }),
  ),
  'a line on stdout': free((_, { sentence }) => void process.stdout.write(`${sentence}\n`)),
  'bytes on stderr': free((_, { sentence }) => void process.stderr.write(Buffer.from(`${sentence}\n`))),
  'a warning': free((_, { sentence }) => void process.emit('warning', new Error(sentence))),
  'an uncaught exception': free(
    (_, { sentence }) => void process.emit('uncaughtException', new Error(sentence)),
  ),
}

/** The carrier holds a sentence, and nothing but the sentence says what is in it. */
function free(carry: Carrier['carry']): Carrier {
  return { isNamed: false, carry }
}

/** The carrier names what it holds. */
function named(carry: Carrier['carry']): Carrier {
  return { isNamed: true, carry }
}

/** The value alone. Where only a name or a cue makes it one, there is nothing to protect. */
function bare(carry: Carrier['carry']): Carrier {
  const meansNothing = new Set(['card_code', 'person_name', 'url_password'])
  return {
    isNamed: false,
    carry: (log, planted) => void (meansNothing.has(planted.kind) || carry(log, planted)),
  }
}
