import { Alert, Button, Group, Modal, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError, client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { useMay } from '../api/session.ts'
import { FilterBar, TextFilter } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Waiting } from '../ui/load-parts.tsx'
import { messageOf } from '../ui/message-of.ts'
import { PageHead } from '../ui/page-parts.tsx'
import { Sparkline } from '../ui/sparkline.tsx'
import { type Column, List } from '../ui/table.tsx'
import { Move, To } from '../ui/value-parts.tsx'
import { isWorkspace, useWorkspace, WorkspaceField } from '../ui/workspace.tsx'

const fetchPage = (workspace_id: string, q: string | undefined) => (cursor: string | undefined) =>
  dataOf(
    client.GET('/api/batch/keywords', {
      params: { query: asked({ workspace_id, q, cursor, limit: 50, days: 30 }) },
    }),
  )
type Row = Awaited<ReturnType<ReturnType<typeof fetchPage>>>['keywords'][number]
type Rank = NonNullable<Row['ranks']>[number]

export function Keywords() {
  const say = useSay()
  const may = useMay()
  const [{ q }, setFilters] = useFilters()
  const [opened, setOpened] = useState(false)
  const { workspace, isLoading } = useWorkspace()
  return (
    <>
      <PageHead title={say('keywords')} note={workspace}>
        {may('batch:write') && (
          <Button size="xs" onClick={() => setOpened(true)}>
            {say('addKeywords')}
          </Button>
        )}
      </PageHead>
      <FilterBar>
        <WorkspaceField />
        <TextFilter key={workspace} name="q" label={say('findKeyword')} />
      </FilterBar>
      <div className="rl-card">
        {isLoading ? (
          <Waiting rows={8} />
        ) : workspace ? (
          <Rows workspace={workspace} q={q} />
        ) : (
          <Empty title={say('noKeywords')} hint={say('noKeywordsHint')} />
        )}
      </div>
      <PasteForm
        opened={opened}
        onClose={() => setOpened(false)}
        workspace={workspace}
        onRegistered={(into) => into !== workspace && setFilters({ workspace: into })}
      />
    </>
  )
}

function Rows({ workspace, q }: { workspace: string; q: string | undefined }) {
  const say = useSay()
  const query = useList(['keywords', workspace, q], fetchPage(workspace, q))
  const columns: Column<Row>[] = [
    {
      head: say('keyword'),
      cell: (row) => (
        <To to={`/keywords/${encodeURIComponent(row.keyword)}?workspace=${encodeURIComponent(workspace)}`}>
          {row.keyword}
        </To>
      ),
    },
    { head: say('position'), cell: (row) => <Place ranks={mainSeries(row.ranks)} />, end: true },
    { head: say('change7'), cell: (row) => <Change ranks={mainSeries(row.ranks)} />, end: true },
    {
      head: say('days30'),
      cell: (row) => (
        <Sparkline
          values={mainSeries(row.ranks).map((rank) => rank.position)}
          label={`${say('days30')}: ${row.keyword}`}
        />
      ),
      wide: true,
    },
  ]
  return (
    <List
      label={say('keywords')}
      query={query}
      rowsOf={(page) => page.keywords}
      columns={columns}
      keyOf={(row) => row.keyword}
      empty={<Empty title={say('noKeywords')} hint={say('noKeywordsHint')} />}
    />
  )
}

/** Of all engines, devices and places the one with most days. */
function mainSeries(ranks: Row['ranks']): Rank[] {
  const series = new Map<string, Rank[]>()
  for (const rank of ranks ?? []) {
    const name = `${rank.engine} ${rank.device} ${rank.location}`
    series.set(name, [...(series.get(name) ?? []), rank])
  }
  return [...series.values()].sort((a, b) => b.length - a.length)[0] ?? []
}

function Place({ ranks }: { ranks: Rank[] }) {
  const say = useSay()
  const last = ranks.findLast(({ status }) => status !== 'failed')
  if (!last)
    return (
      <Text span c="dimmed">
        –
      </Text>
    )
  return last.position === null ? (
    <Text span size="xs" c="dimmed">
      {say('notInDepth')}
    </Text>
  ) : (
    <strong>{last.position}</strong>
  )
}

function Change({ ranks }: { ranks: Rank[] }) {
  const known = ranks.filter(({ position }) => position !== null)
  const last = known.at(-1)
  const before = last && known.findLast(({ day }) => Date.parse(last.day) - Date.parse(day) >= 7 * 86_400_000)
  if (!last || !before)
    return (
      <Text span c="dimmed">
        –
      </Text>
    )
  const moved = before.position! - last.position!
  if (moved === 0)
    return (
      <Text span c="dimmed">
        0
      </Text>
    )
  return <Move up={moved > 0}>{Math.abs(moved)}</Move>
}

/**
 * A list pasted from anywhere; each line gets its verdict, and one bad line registers nothing. Where no workspace is in
 * sight, the form asks for one.
 */
function PasteForm({
  opened,
  onClose,
  workspace,
  onRegistered,
}: {
  opened: boolean
  onClose: () => void
  workspace: string | undefined
  onRegistered: (workspace: string) => void
}) {
  const say = useSay()
  const queries = useQueryClient()
  const [text, setText] = useState('')
  const [named, setNamed] = useState('')
  const into = workspace ?? named
  const [bad, setBad] = useState<ReadonlyMap<string, string>>(new Map())
  const lines = text
    .split('\n')
    .map((line) => line.replace(/\r$/, ''))
    .filter((line) => line.trim() !== '')
  const register = useMutation({
    mutationFn: () =>
      dataOf(
        client.POST('/api/batch/keywords', {
          params: { query: { each: true } },
          body: { workspace_id: into, keywords: lines },
        }),
      ),
    onSuccess: () => {
      setBad(new Map())
      void queries.invalidateQueries()
      onRegistered(into)
    },
    onError: (error) => {
      if (!(error instanceof ApiError)) return
      setBad(
        new Map(
          error.details.flatMap(({ path, message }) => {
            const at = /\[(\d+)\]/.exec(path)?.[1]
            const line = at === undefined ? undefined : lines[Number(at)]
            return line === undefined ? [] : [[line, message] as const]
          }),
        ),
      )
    },
  })
  const invalid = lines.filter((line) => bad.has(line))
  const verdicts = register.data?.verdicts?.map((is, at) => ({ at, keyword: lines[at], is }))
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={<Text fw={650}>{say('addKeywords')}</Text>}
      size="lg"
      centered
      closeButtonProps={{ 'aria-label': say('close') }}
    >
      <Stack gap="sm">
        {workspace === undefined && (
          <TextInput
            label={say('workspace')}
            description={say('newWorkspaceHint')}
            value={named}
            onChange={({ currentTarget: { value } }) => setNamed(value)}
            error={named !== '' && !isWorkspace(named) && say('workspaceForm')}
            required
            data-autofocus
          />
        )}
        <Textarea
          label={say('pasteHint')}
          autosize
          minRows={6}
          maxRows={14}
          value={text}
          data-autofocus={workspace !== undefined}
          onChange={({ currentTarget: { value } }) => {
            setText(value)
            register.reset()
          }}
          placeholder={'running shoes\n나이키 운동화'}
        />
        {register.data && (
          <Alert color="teal" role="status">
            {say('registeredCount', { registered: register.data.registered, skipped: register.data.skipped })}
          </Alert>
        )}
        {register.error && (
          <Alert color="red" role="alert">
            {invalid.length > 0 ? say('fixLines') : messageOf(register.error, say)}
          </Alert>
        )}
        {verdicts && (
          <ul className="rl-verdicts" aria-label={say('verdicts')}>
            {verdicts.map(({ at, keyword, is }) => (
              <li key={at}>
                <span className="rl-dot" data-tone={is === 'registered' ? 'good' : 'quiet'} aria-hidden />
                <strong>{keyword}</strong> {say(is)}
              </li>
            ))}
          </ul>
        )}
        {invalid.length > 0 && (
          <ul className="rl-verdicts" aria-label={say('verdicts')}>
            {[...new Set(invalid)].map((keyword) => (
              <li key={keyword}>
                <span className="rl-dot" data-tone="bad" aria-hidden />
                <strong>{keyword}</strong> {bad.get(keyword)}
              </li>
            ))}
          </ul>
        )}
        <Group justify="space-between">
          <Text size="xs" c={lines.length > 100 ? 'red' : 'dimmed'}>
            {lines.length} / 100
          </Text>
          <Group gap="xs">
            {invalid.length > 0 && (
              <Button
                variant="default"
                onClick={() => setText(lines.filter((line) => !bad.has(line)).join('\n'))}
              >
                {say('removeInvalid')}
              </Button>
            )}
            <Button
              loading={register.isPending}
              disabled={lines.length === 0 || lines.length > 100 || !isWorkspace(into)}
              onClick={() => register.mutate()}
            >
              {say('register', { count: lines.length })}
            </Button>
          </Group>
        </Group>
      </Stack>
    </Modal>
  )
}
