import { type PageRequest, readCursor } from '../platform/page.ts'
import { parseInstant } from '../platform/time.ts'
import { refuse } from './refusals.ts'

/** Where a list of payments goes on: the instant, as the database writes it, and the id of the last one shown. */
export function readPlace(query: PageRequest): readonly string[] | undefined {
  const place = readCursor(query, 2)
  const [day, time] = place?.[0]?.split(' ') ?? []
  if (place && !parseInstant(`${day}T${time}`)) throw refuse('invalid_cursor')
  return place
}
