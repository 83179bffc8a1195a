import { Text, Tooltip } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { client, dataOf } from '../api/client.ts'
import { useTime } from './formats.ts'
import { useSay } from './language.tsx'

export function useClock(everyMs = 10_000) {
  return useQuery({
    queryKey: ['clock'],
    queryFn: () => dataOf(client.GET('/api/sandbox/clock')),
    refetchInterval: ({ state }) => (state.data?.moving ? 1_000 : everyMs),
  })
}

/** The sandbox's own time, always in sight. */
export function ClockNow() {
  const say = useSay()
  const time = useTime()
  const { data } = useClock()
  return (
    <Tooltip label={say('sandboxMode')}>
      <Link
        to="/sandbox"
        className="rl-card"
        style={{
          display: 'flex',
          alignItems: 'center',
          gap: 8,
          height: 32,
          padding: '0 10px',
          color: 'inherit',
          textDecoration: 'none',
        }}
      >
        <span className="rl-dot" data-tone={data?.moving ? 'busy' : 'warn'} aria-hidden />
        <Text size="xs" fw={550} component="span">
          {data ? time(data.now, 'day') : '…'}
        </Text>
      </Link>
    </Tooltip>
  )
}
