import { Button, PasswordInput, Stack, Text, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { ApiError, client, dataOf } from '../api/client.ts'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { messageOf } from '../ui/message-of.ts'

export function SignIn() {
  const say = useSay()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [{ next }] = useFilters()
  const [token, setToken] = useState('')
  const [isLink, setIsLink] = useState(false)
  const taken = useRef(false)
  const signIn = useMutation({
    mutationFn: (body: { token: string } | { code: string }) => dataOf(client.POST('/api/session', { body })),
    onSuccess: async (session) => {
      queries.clear()
      queries.setQueryData(['session'], session)
      await navigate({ to: next?.startsWith('/') && !next.startsWith('//') ? next : '/', replace: true })
    },
  })

  // A sign-in link brings its code behind the #, which no server sees. It is used up at once and leaves the address.
  useEffect(() => {
    document.title = `${say('signIn')} · Rankledger`
    const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1]
    if (!code || taken.current) return
    taken.current = true
    setIsLink(true)
    history.replaceState(null, '', location.pathname)
    signIn.mutate({ code })
  }, [say, signIn])

  const error =
    signIn.error &&
    (signIn.error instanceof ApiError && signIn.error.status === 401
      ? say(isLink ? 'linkUsed' : 'tokenWrong')
      : messageOf(signIn.error, say))
  return (
    <main className="rl-center">
      <form
        className="rl-card"
        style={{ padding: 28, width: '100%', maxWidth: 400 }}
        onSubmit={(event) => {
          event.preventDefault()
          setIsLink(false)
          signIn.mutate({ token: token.trim() })
        }}
      >
        <Stack gap="md">
          <img src="/console/icon.svg" width={36} height={36} alt="" />
          <div>
            <Title order={1}>{say('signInTitle')}</Title>
            <Text size="sm" c="dimmed" mt={6}>
              {say('signInHint')}
            </Text>
          </div>
          <PasswordInput
            label={say('token')}
            value={token}
            onChange={(event) => setToken(event.currentTarget.value)}
            error={error}
            placeholder="rl_…"
            autoComplete="off"
            data-autofocus
            required
            visibilityToggleButtonProps={{ 'aria-label': say('token') }}
          />
          <Button type="submit" loading={signIn.isPending}>
            {say('signIn')}
          </Button>
          <Text size="xs" c="dimmed">
            {say('signInWhere')}
          </Text>
        </Stack>
      </form>
    </main>
  )
}
