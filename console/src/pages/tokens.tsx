import { Alert, Button, Checkbox, Code, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { useSession } from '../api/session.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { useSay } from '../ui/language.tsx'
import { Empty } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'
import { List } from '../ui/table.tsx'
import { tellError } from '../ui/tell-error.ts'
import { Id, Status, When } from '../ui/value-parts.tsx'

const scopes = [
  'billing:read',
  'billing:write',
  'billing:refund',
  'batch:read',
  'batch:write',
  'admin',
] as const

/** One that was replaced goes on until its overlap is over. */
const isUsable = (status: string) => status === 'valid' || status === 'replaced'

export function Tokens() {
  const say = useSay()
  const { token_id: own } = useSession()
  const [isNew, setIsNew] = useState(false)
  const [revoked, setRevoked] = useState<{ token_id: string; name: string }>()
  const query = useList(['tokens'], (cursor) =>
    dataOf(client.GET('/api/tokens', { params: { query: asked({ cursor, limit: 30 }) } })),
  )
  const nameOf = (bound: string | null) => (bound === '*' ? say('everything') : (bound ?? say('none')))
  const revoke = useAct(
    (token_id: string) => dataOf(client.DELETE('/api/tokens/{token_id}', { params: { path: { token_id } } })),
    { onDone: () => setRevoked(undefined) },
  )
  return (
    <>
      <PageHead title={say('tokens')}>
        <Button size="xs" onClick={() => setIsNew(true)}>
          {say('newToken')}
        </Button>
      </PageHead>
      <div className="rl-card">
        <List
          label={say('tokens')}
          query={query}
          rowsOf={(page) => page.tokens}
          keyOf={(row) => row.token_id}
          empty={<Empty title={say('none')} />}
          columns={[
            {
              head: say('name'),
              cell: (row) => (
                <>
                  <div>{row.name || '–'}</div>
                  <Text size="xs" c="dimmed" component="div">
                    <Id of={row.token_id} />
                  </Text>
                </>
              ),
            },
            { head: say('status'), cell: (row) => <Status of={row.status} /> },
            {
              head: say('scopes'),
              cell: (row) => (row.scopes.includes('admin') ? 'admin' : row.scopes.join(', ')),
              wide: true,
            },
            {
              head: say('binding'),
              cell: ({ workspace, account }) =>
                workspace === '*' && account === '*'
                  ? say('everything')
                  : say('boundTo', { workspace: nameOf(workspace), account: nameOf(account) }),
              wide: true,
            },
            { head: say('lastUsed'), cell: (row) => <When at={row.last_used_at} />, wide: true },
            {
              head: say('expires'),
              cell: (row) => (row.expires_at ? <When at={row.expires_at} day /> : say('never')),
              wide: true,
            },
            {
              head: say('actions'),
              cell: (row) =>
                isUsable(row.status) && row.token_id !== own ? (
                  <Button size="compact-xs" variant="default" onClick={() => setRevoked(row)}>
                    {say('revoke')}
                  </Button>
                ) : (
                  '–'
                ),
              end: true,
            },
          ]}
        />
      </div>
      <Confirm
        opened={revoked !== undefined}
        onClose={() => setRevoked(undefined)}
        title={say('revoke')}
        yes={say('revoke')}
        danger
        busy={revoke.isPending}
        onYes={() => revoked && revoke.mutate(revoked.token_id)}
      >
        <Text size="sm">
          {revoked?.name} <span className="rl-id">{revoked?.token_id}</span>
        </Text>
        <Text size="sm">{say('revokeSays')}</Text>
      </Confirm>
      {isNew && <NewToken onClose={() => setIsNew(false)} />}
    </>
  )
}

function NewToken({ onClose }: { onClose: () => void }) {
  const say = useSay()
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<string[]>(['billing:read'])
  const [workspace, setWorkspace] = useState('')
  const [account, setAccount] = useState('')
  const [expiry, setExpiry] = useState('')
  const [made, setMade] = useState<string>()
  const [isBusy, setIsBusy] = useState(false)
  const isAdmin = chosen.includes('admin')
  const hasScopeOf = (area: string) => chosen.some((scope) => scope.startsWith(area))
  const create = async () => {
    setIsBusy(true)
    try {
      const body = asked({
        name: name || undefined,
        scopes: chosen as never,
        workspace: isAdmin ? '*' : workspace || undefined,
        account: isAdmin ? '*' : account || undefined,
        expires_in: expiry || undefined,
      })
      const { token } = await dataOf(client.POST('/api/tokens', { body }))
      setMade(token)
      void queries.invalidateQueries({ queryKey: ['tokens'] })
    } catch (error) {
      tellError(error, say)
    } finally {
      setIsBusy(false)
    }
  }
  return (
    <Modal
      opened
      onClose={onClose}
      title={<Text fw={650}>{say('newToken')}</Text>}
      centered
      closeButtonProps={{ 'aria-label': say('close') }}
    >
      {made ? (
        <Stack gap="sm">
          <Alert color="orange">{say('tokenOnce')}</Alert>
          <Code block style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
            {made}
          </Code>
          <Group justify="flex-end">
            <Button variant="default" onClick={() => void navigator.clipboard.writeText(made)}>
              {say('copy')}
            </Button>
            <Button onClick={onClose}>{say('done')}</Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            void create()
          }}
        >
          <Stack gap="sm">
            <TextInput
              label={say('name')}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              maxLength={200}
              data-autofocus
            />
            <Select
              label={say('expiresIn')}
              data={[
                { value: '', label: say('usualExpiry') },
                { value: 'P1D', label: say('day1') },
                { value: 'P90D', label: say('days90') },
                { value: 'P1Y', label: say('year1') },
                { value: 'never', label: say('never') },
              ]}
              value={expiry}
              onChange={(value) => setExpiry(value ?? '')}
              allowDeselect={false}
            />
            <Checkbox.Group label={say('scopes')} value={chosen} onChange={setChosen}>
              <Stack gap={6} mt={6}>
                {scopes.map((scope) => (
                  <Checkbox key={scope} value={scope} label={scope} />
                ))}
              </Stack>
            </Checkbox.Group>
            {!isAdmin && (
              <>
                <TextInput
                  label={say('workspace')}
                  description={say('bindingHint')}
                  value={workspace}
                  onChange={(event) => setWorkspace(event.currentTarget.value)}
                />
                <TextInput
                  label={say('account')}
                  description={say('bindingHint')}
                  value={account}
                  onChange={(event) => setAccount(event.currentTarget.value)}
                />
                {hasScopeOf('billing:') && !account && <Alert color="orange">{say('noAccountBound')}</Alert>}
                {hasScopeOf('batch:') && !workspace && (
                  <Alert color="orange">{say('noWorkspaceBound')}</Alert>
                )}
              </>
            )}
            <Group justify="flex-end">
              <Button type="submit" loading={isBusy} disabled={chosen.length === 0}>
                {say('create')}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  )
}
