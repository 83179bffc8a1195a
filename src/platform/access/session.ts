import { createHash, randomBytes } from 'node:crypto'

/** The name of the cookie that holds a session. */
const sessionCookie = 'rankledger_session'
export const sessionSeconds = 12 * 3600
export const signInSeconds = 5 * 60

/** 256 random bits, for a session's cookie and for a sign-in link alike. */
export function newSession(): string {
  return randomBytes(32).toString('base64url')
}

export function isSession(text: string): boolean {
  return /^[\w-]{43}$/.test(text)
}

/** What is stored: nobody who reads the table can sign in with it. */
export function hashSession(text: string): Buffer {
  return createHash('sha256').update(`session ${text}`).digest()
}

/** The session a Cookie header holds. */
export function sessionOf(header: string | undefined): string | undefined {
  for (const part of header?.split(';') ?? []) {
    const [name, value] = part.trim().split('=', 2)
    if (name === sessionCookie && value) return value
  }
  return undefined
}

/** The Set-Cookie line that begins a session, or ends it. */
export function cookieLine(value: string, { secure }: { secure: boolean }): string {
  const age = value === '' ? 0 : sessionSeconds
  return `${sessionCookie}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure ? '; Secure' : ''}`
}

export type Origins = {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/**
 * Whether another site may stand behind a request that brings a session. Browsers say where a request comes from, and a
 * header of one's own cannot be sent across sites without being asked for first; one of both may be missing, neither may be wrong.
 */
export function isCrossSite({ method, headers }: Origins): boolean {
  const { origin, host, 'sec-fetch-site': site } = headers
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true
  if (origin !== undefined && hostOf(origin) !== host) return true
  return !reads.has(method) && headers['x-console'] !== '1'
}

const reads = new Set(['GET', 'HEAD'])

function hostOf(origin: string | string[]): string | undefined {
  return URL.canParse(String(origin)) ? new URL(String(origin)).host : undefined
}
