import { notifications } from '@mantine/notifications'
import { useRef } from 'react'
import { dataOf, type Fetched } from '../api/client.ts'
import { useSay } from './language.tsx'

type KeyHeader = { header: { 'Idempotency-Key': string } }

/**
 * Sends what a form asks for under a key that belongs to the wish: pressed twice, or sent again after a lost answer, it is
 * done once. Another body is another wish. The key lasts until the API has kept an answer under it, so that a wish that
 * was refused can be had once more, and one whose outcome is open cannot come true twice.
 */
export function useWish() {
  const say = useSay()
  const keys = useRef(new Map<string, string>())
  return async <T>(body: object, send: (params: KeyHeader) => Promise<Fetched<T>>): Promise<T> => {
    const wish = JSON.stringify(body)
    const key = keys.current.get(wish) ?? crypto.randomUUID()
    keys.current.set(wish, key)
    const answer = await send({ header: { 'Idempotency-Key': key } })
    if (isKept(answer.response)) keys.current.delete(wish)
    const data = await dataOf(answer)
    if (isReplay(answer.response) && isKept(answer.response))
      notifications.show({ message: say('doneBefore'), closeButtonProps: { 'aria-label': say('close') } })
    return data
  }
}

/** The API repeats this answer for ever under its key: the wish came true, or was refused for good. */
function isKept(response: Response): boolean {
  return [200, 201, 402].includes(response.status) || (isReplay(response) && response.status !== 202)
}

function isReplay(response: Response): boolean {
  return response.headers.get('idempotent-replayed') === 'true'
}
