import { Button, Group, Modal, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useSay } from './language.tsx'
import { tellError } from './tell-error.ts'

/** Does something to the service, then reads anew what is on the page. */
export function useAct<V = void>(
  act: (wish: V) => Promise<unknown>,
  options: { done?: string; onDone?: () => void } = {},
) {
  const queries = useQueryClient()
  const say = useSay()
  return useMutation({
    mutationFn: act,
    onSuccess: () => {
      if (options.done)
        notifications.show({
          color: 'teal',
          message: options.done,
          closeButtonProps: { 'aria-label': say('close') },
        })
      options.onDone?.()
    },
    onError: (error) => tellError(error, say),
    onSettled: () => queries.invalidateQueries(),
  })
}

/** Asks before something is done, and says what will happen. */
export function Confirm({
  opened,
  onClose,
  title,
  children,
  yes,
  danger,
  busy,
  disabled,
  onYes,
}: {
  opened: boolean
  onClose: () => void
  title: string
  children: ReactNode
  yes: string
  danger?: boolean
  busy?: boolean
  disabled?: boolean
  onYes: () => void
}) {
  const say = useSay()
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={<Text fw={650}>{title}</Text>}
      centered
      closeButtonProps={{ 'aria-label': say('close') }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          onYes()
        }}
      >
        <Stack gap="md">
          {children}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {say('keep')}
            </Button>
            <Button type="submit" color={danger ? 'red' : undefined} loading={busy} disabled={disabled}>
              {yes}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  )
}
