import { readDatabaseUrl, serverOf } from './database-url.ts'

/**
 * Why the database cannot do what it is asked, though the statement was right. Each kind is something an operator
 * knows how to mend; what is not listed here is a fault of ours.
 */
export type DatabaseTrouble =
  | 'unreachable'
  | 'sign_in_refused'
  | 'no_free_connection'
  | 'read_only'
  | 'disk_full'
  | 'prepared_statements_lost'
  | 'conflict'
  | 'too_slow'

const troubleOfState: Readonly<Record<string, DatabaseTrouble>> = {
  '08000': 'unreachable',
  '08001': 'unreachable',
  '08003': 'unreachable',
  '08004': 'unreachable',
  '08006': 'unreachable',
  '08P01': 'unreachable', // a pooler's own words: it cannot reach the server, or shuts down
  '25006': 'read_only',
  '26000': 'prepared_statements_lost',
  '28000': 'sign_in_refused',
  '28P01': 'sign_in_refused',
  '3D000': 'sign_in_refused',
  '40001': 'conflict',
  '40P01': 'conflict',
  '42P05': 'prepared_statements_lost',
  '53000': 'disk_full',
  '53100': 'disk_full',
  '53200': 'disk_full', // out of memory: the same cure, room
  '53300': 'no_free_connection',
  '55P03': 'too_slow',
  '57014': 'too_slow',
  '57P01': 'unreachable',
  '57P02': 'unreachable',
  '57P03': 'unreachable',
  '57P05': 'unreachable',
  '58030': 'disk_full', // the disk fails, full or broken
  ECONNREFUSED: 'unreachable',
  ECONNRESET: 'unreachable',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENOTFOUND: 'unreachable',
  EAI_AGAIN: 'unreachable',
  EPIPE: 'unreachable',
  ETIMEDOUT: 'unreachable',
}

/** What is wrong with the database, if that is why a statement failed. */
export function troubleOf(error: unknown): DatabaseTrouble | undefined {
  if (!(error instanceof Error)) return undefined
  const known = troubleOfState[codeOf(error) ?? '']
  if (known) return known
  if (isSocketMissing(error)) return 'unreachable'
  if (isStalePlan(error)) return 'prepared_statements_lost'
  if (isShardMoving(error)) return 'too_slow'
  if (error.message === 'Query read timeout') return 'unreachable'
  return /^(Connection terminated|timeout (exceeded )?when trying to connect|timeout expired|Client (has encountered a connection error|was closed))/.test(
    error.message,
  )
    ? 'unreachable'
    : undefined
}

/** Whether an error says "the database cannot do its work" rather than "the statement was wrong". */
export function isDatabaseUnavailable(error: unknown): boolean {
  return troubleOf(error) !== undefined
}

/** Whether the server itself refused, so that the transaction certainly did not happen. Silence is no refusal. */
export function isRefusedByServer(error: unknown): boolean {
  const trouble = troubleOf(error)
  return trouble !== undefined && trouble !== 'unreachable'
}

/**
 * Whether the connection has to be replaced: it is wrong about its prepared statements, or nobody is at its other end any
 * more. The server says so before the socket ends; whoever got the connection in between would meet an end that is another's.
 */
export function isStaleConnection(error: unknown): boolean {
  const trouble = troubleOf(error)
  return trouble === 'prepared_statements_lost' || trouble === 'unreachable'
}

/** Whose socket file is gone, serves no more or not yet. The same code without `connect` is of a certificate's file. */
function isSocketMissing(error: Error): boolean {
  return codeOf(error) === 'ENOENT' && (error as NodeJS.ErrnoException).syscall === 'connect'
}

/** A column was added or changed under a statement that is prepared already. */
function isStalePlan(error: Error): boolean {
  return codeOf(error) === '0A000' && error.message.startsWith('cached plan must not change')
}

/** Citus makes no table beside shards that are under way to another node, and says so at once. It goes by. */
function isShardMoving(error: Error): boolean {
  return codeOf(error) === 'XX000' && error.message.startsWith('could not acquire the lock required to')
}

function codeOf(error: Error): string | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** The error of a first connection in one sentence that names the setting to change. */
export function explainConnecting(
  error: unknown,
  { setting, url, timeoutMs }: { setting: string; url: string; timeoutMs: number },
): Error {
  const at = readDatabaseUrl(url)
  const server = serverOf(url)
  const code = error instanceof Error ? codeOf(error) : undefined
  const say = (sentence: string) => new Error(sentence, { cause: error })
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return say(`Nobody knows the host ${at.host} of ${setting}; correct ${setting}.`)
  if (code === 'ECONNREFUSED' || (error instanceof Error && isSocketMissing(error)))
    return say(`No PostgreSQL listens at ${server}; start it, or correct ${setting}.`)
  if (code === '28P01' || code === '28000')
    return say(
      `PostgreSQL at ${server} does not let role ${at.user || '(none)'} in; correct ${setting}, or the server's pg_hba.conf.`,
    )
  if (code === '3D000')
    return say(`PostgreSQL at ${server} has no database ${at.database}; create it, or correct ${setting}.`)
  if (code === '53300')
    return say(
      `PostgreSQL at ${server} has no free connection; raise its max_connections or lower DATABASE_POOL_SIZE.`,
    )
  const certificate = new URL(url).searchParams.get('sslrootcert')
  if (code === 'ENOENT' || code === 'EACCES')
    return say(`The certificate that ${setting} names cannot be read (${code}); correct sslrootcert in it.`)
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return say(
      `The certificate of PostgreSQL at ${server} is for another host; let ${setting} name the host that it is for.`,
    )
  if (code === 'CERT_HAS_EXPIRED')
    return say(`The certificate of PostgreSQL at ${server} has expired; renew it on the server.`)
  if (code !== undefined && untrusted.has(code))
    return say(
      `Nothing here vouches for the certificate of PostgreSQL at ${server}; ${
        certificate ? 'correct sslrootcert in' : 'add sslrootcert, the file of whoever signed it, to'
      } ${setting}.`,
    )
  if (error instanceof Error && error.message === 'The server does not support SSL connections')
    return say(`PostgreSQL at ${server} speaks no TLS; turn it on there, or take sslmode out of ${setting}.`)
  if (error instanceof Error && /^timeout|read timeout$/i.test(error.message))
    return say(
      `PostgreSQL at ${server} did not answer within ${timeoutMs} ms; correct ${setting}, or raise DATABASE_CONNECT_TIMEOUT_MS.`,
    )
  if (troubleOf(error))
    return say(`PostgreSQL at ${server} cannot be used just now; look at the server that ${setting} names.`)
  return error instanceof Error ? error : new Error(String(error))
}

/** Whether a lock was not to be had within `lock_timeout`. */
export function isLockTimeout(error: unknown): boolean {
  return (error as { code?: string }).code === '55P03'
}

/** Whether a row was there already. From a node of Citus a copy, or an insert of what was selected, brings the words, but not the code. */
export function isDuplicate(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string }
  return code === '23505' || (code === 'XX000' && message.startsWith('duplicate key value'))
}
