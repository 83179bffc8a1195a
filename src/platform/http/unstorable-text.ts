import type { FastifyRequest } from 'fastify'
import { type Refusal, refuseRequest } from '../refusal.ts'
import { unknownIdRefusal } from './unknown-id.ts'

const suspects = new WeakSet<object>()

/** Remembers a body whose text spells U+0000 somewhere, so that all others cost one search and no walk. */
export function suspectText(text: string, body: unknown): void {
  if (typeof body === 'object' && body !== null && text.includes('\\u0000')) suspects.add(body)
}

/**
 * PostgreSQL's text holds every character but U+0000, so a request that carries one is refused before anything is done
 * with it. `ownText` names the fields whose characters a route judges itself, in words of its own.
 */
export function unstorableTextRefusal(
  request: FastifyRequest,
  ownText: ReadonlySet<string>,
): Refusal | undefined {
  const { params, query, body } = request
  const inPath = pathOfNul(params, '', ownText)
  const unknownId = inPath === undefined ? undefined : unknownIdRefusal(request)
  if (unknownId) return unknownId
  const path =
    inPath ??
    pathOfNul(query, '', ownText) ??
    (suspects.has(Object(body)) ? pathOfNul(body, '', ownText) : undefined)
  if (path === undefined) return undefined
  return refuseRequest('validation_failed', {
    details: [
      { path: path || 'body', code: 'wrong_form', message: 'Text must not hold the character U+0000.' },
    ],
  })
}

function pathOfNul(value: unknown, path: string, ownText: ReadonlySet<string>): string | undefined {
  if (typeof value === 'string') return value.includes('\0') ? path : undefined
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, inner] of Object.entries(value)) {
    if (ownText.has(name)) continue
    if (name.includes('\0')) return path
    const at = Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name
    const found = pathOfNul(inner, at, ownText)
    if (found !== undefined) return found
  }
  return undefined
}
