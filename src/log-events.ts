import { type EventSpec, platformEvents } from './platform/log/events.ts'

/** Everything this service may log: names and typed fields. What is not listed here is not written. */
export const logEvents = {
  ...platformEvents,
  'service.started': { mode: 'text', port: 'int', worker: 'bool', ms: 'int' },
  'service.stopping': { signal: 'text' },
  'service.stopped': { ms: 'int' },
  'database.lost': { error: 'error' },
  'database.restarted': { attempt: 'int' },
  'database.replica': { state: 'text' },
  'database.migrated': { migration: 'text' },
  'http.answered': {
    method: 'text',
    route: 'text',
    status: 'int',
    ms: 'number',
    request_id: 'id',
    caller: 'id',
  },
  'access.flood': { of: 'text', source: 'hash' },
  'http.failed': { route: 'text', request_id: 'id', error: 'error' },
  'job.done': { job: 'text', ms: 'number' },
  'job.failed': { job: 'text', job_id: 'id', attempt: 'int', error: 'error' },
  'job.dead': { job: 'text', job_id: 'id', error: 'error' },
  'worker.lease-lost': {},
  'worker.jobs-freed': { count: 'int' },
  'alarm.raised': { kind: 'text', subject: 'id' },
  'sandbox.failed': { error: 'error' },
  'sandbox.exposed': { host: 'text', opens_to: 'text' },
  'demo.failed': { error: 'error' },
  'reconcile.failed': { reference: 'id', error: 'error' },
  'sweep.failed': { sweep: 'text', error: 'error' },
} as const satisfies EventSpec
