import { notifications } from '@mantine/notifications'
import { ApiError } from '../api/client.ts'
import type { Say } from './language.tsx'
import { messageOf } from './message-of.ts'

/** Beside the page: here, because the frame of every page needs it and no form. */
export function tellError(error: unknown, say: Say): void {
  notifications.show({
    color: 'red',
    title:
      error instanceof ApiError && error.code !== 'unreachable' ? error.code.replaceAll('_', ' ') : undefined,
    message: messageOf(error, say),
    closeButtonProps: { 'aria-label': say('close') },
  })
}
