import type { ConnectionOptions as TlsOptions } from 'node:tls'
import pg from 'pg'
import { isLoopback } from '../loopback.ts'

/** Where a database URL leads, as the driver reads it: what the URL leaves open comes from PGHOST and its like. */
export type DatabaseAddress = {
  /** A name, an address, or the folder of a socket file. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  readonly password: string | undefined
  /** The connection is made with TLS and a server that is looked at, or not at all. */
  readonly demandsTls: boolean
}

/**
 * Asks the driver itself, which has its own mind about a host in the query and about options that stand twice. What the URL
 * says about TLS is left out: the driver would read the files of certificates and warn of modes, which is for whoever connects.
 */
export function readDatabaseUrl(url: string): DatabaseAddress {
  // A client that is never connected: nothing leaves it.
  const { host, port, user, database, password, ssl } = new pg.Client(url.replace(aboutTls, '$1'))
  return {
    host,
    port,
    user: user ?? '',
    database: database ?? '',
    password: typeof password === 'string' && password !== '' ? password : undefined,
    demandsTls: demandsTls(url, ssl),
  }
}

/** Whether nothing that is sent there leaves this machine. */
export function isOnThisMachine({ host }: DatabaseAddress): boolean {
  return isSocketFolder(host) || isLoopback(host)
}

/** Where a URL leads, without its password: a host and port, or a socket file. */
export function serverOf(url: string): string {
  const { host, port } = readDatabaseUrl(url)
  if (isSocketFolder(host)) return `${host}/.s.PGSQL.${port}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

const aboutTls = /([?&])(?:sslmode|sslrootcert|sslcert|sslkey|uselibpqcompat)=[^&#]*/g

function isSocketFolder(host: string): boolean {
  return host.startsWith('/')
}

/** Of an option that stands twice the last counts. A certificate alone turns TLS on. */
function demandsTls(url: string, tls: boolean | TlsOptions): boolean {
  const { searchParams } = new URL(url)
  const mode = searchParams.getAll('sslmode').at(-1)
  if (mode) return /^(?:require|verify-ca|verify-full)$/.test(mode)
  if (['sslrootcert', 'sslcert', 'sslkey'].some((name) => searchParams.getAll(name).at(-1))) return true
  return typeof tls === 'object' ? tls.rejectUnauthorized !== false : tls === true
}
