import type { FastifyRequest } from 'fastify'
import { Refusal } from '../refusal.ts'

/**
 * An id of the wrong shape in a path names nothing, so a route that looks for something answers what it answers of an id
 * that nothing has: the 404 that its schema tells first. A route without one lets the caller choose the id.
 */
export function unknownIdRefusal({ routeOptions }: FastifyRequest): Refusal | undefined {
  const told = routeOptions.schema?.errors?.find(({ status }) => status === 404)
  return told && new Refusal('not_found', told.code, told.message)
}

/** Whether it is the path in which the framework's check of a request failed. */
export function isOfPath(error: unknown): boolean {
  return (error as { validationContext?: unknown } | null)?.validationContext === 'params'
}
