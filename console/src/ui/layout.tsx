import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  Menu,
  Text,
  UnstyledButton,
  useMantineColorScheme,
} from '@mantine/core'
import { useDisclosure, useHotkeys } from '@mantine/hooks'
import { spotlight } from '@mantine/spotlight'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { lazy, Suspense, useEffect } from 'react'
import { ApiError, client, dataOf } from '../api/client.ts'
import { mayUse, useSession } from '../api/session.ts'
import { ClockNow } from './clock-now.tsx'
import { useLanguage, useSay } from './language.tsx'
import { Waiting } from './load-parts.tsx'
import { navigation } from './navigation.ts'
import { StaleNote } from './stale-note.tsx'
import { tellError } from './tell-error.ts'

const Palette = lazy(() => import('./palette.tsx'))

function Icon({ path, size = 17 }: { path: string; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      <path d={path} />
    </svg>
  )
}

/** What surrounds every page: the menu, the palette, and who is signed in. */
export function Layout() {
  const say = useSay()
  const session = useSession()
  const [opened, { toggle, close }] = useDisclosure(false)
  const path = useRouterState({ select: (state) => state.location.pathname })
  // Here and not in the palette, which is loaded a moment later: a key pressed before that is not lost.
  useHotkeys([['mod+K', () => spotlight.open()]], [], true)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the menu
  useEffect(close, [path])

  return (
    <AppShell
      header={{ height: 54 }}
      navbar={{ width: 226, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a href="#main" className="rl-link" style={{ position: 'absolute', left: -9999 }}>
        {say('skip')}
      </a>
      <AppShell.Header bg="var(--rl-card)" withBorder>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={say('menu')} />
            <Link
              to="/"
              style={{
                display: 'flex',
                alignItems: 'center',
                gap: 9,
                textDecoration: 'none',
                color: 'inherit',
              }}
            >
              <img src="/console/icon.svg" width={24} height={24} alt="" />
              <Text fw={680} size="md" visibleFrom="xs">
                Rankledger
              </Text>
            </Link>
          </Group>
          <Group gap={6} wrap="nowrap">
            {session.mode === 'sandbox' && mayUse(session, 'admin') && <ClockNow />}
            <UnstyledButton
              onClick={spotlight.open}
              className="rl-card"
              px={10}
              h={32}
              aria-label={say('search')}
              style={{ display: 'flex', alignItems: 'center', gap: 8 }}
            >
              <Icon path="M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4" size={15} />
              <Text size="sm" c="dimmed" visibleFrom="md">
                {say('search')}
              </Text>
              <Text size="xs" c="dimmed" visibleFrom="md" className="rl-key" aria-hidden />
            </UnstyledButton>
            <Person />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar bg="var(--rl-card)" p={8} style={{ overflowY: 'auto' }}>
        <nav aria-label={say('menu')}>
          {navigation.map(({ title, places }) => {
            const shown = places.filter(
              ({ scope, sandboxOnly }) =>
                (!scope || mayUse(session, scope)) && (!sandboxOnly || session.mode === 'sandbox'),
            )
            if (shown.length === 0) return null
            return (
              <div key={title ?? 'first'}>
                {title && <div className="rl-nav-title">{say(title)}</div>}
                {shown.map(({ to, word, icon }) => (
                  <Link key={to} to={to} className="rl-nav" activeOptions={{ exact: to === '/' }}>
                    <Icon path={icon} />
                    {say(word)}
                  </Link>
                ))}
              </div>
            )
          })}
        </nav>
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <div style={{ maxWidth: 1280, margin: '0 auto' }}>
          <StaleNote />
          <Suspense fallback={<Waiting rows={8} />}>
            <Outlet />
          </Suspense>
        </div>
      </AppShell.Main>
      <Suspense fallback={null}>
        <Palette />
      </Suspense>
    </AppShell>
  )
}

function Person() {
  const say = useSay()
  const session = useSession()
  const { language, choose } = useLanguage()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const signOut = async () => {
    try {
      await dataOf(client.DELETE('/api/session'))
    } catch (error) {
      // It goes on: whoever leaves this machine now must know. One that is over already needs no end.
      if (!(error instanceof ApiError && error.status === 401)) return tellError(error, say)
    }
    queries.clear()
    await navigate({ to: '/sign-in' })
  }
  return (
    <Menu position="bottom-end" width={220} shadow="md">
      <Menu.Target>
        <ActionIcon variant="default" size={32} aria-label={say('account')}>
          <Icon path="M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c1-4 4-6 8-6s7 2 8 6" size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label c="dimmed">
          {session.name || session.token_id} · {session.release}
        </Menu.Label>
        <Menu.Divider />
        <Menu.Label c="dimmed">{say('language')}</Menu.Label>
        <Menu.Item onClick={() => choose('en')} lang="en" rightSection={language === 'en' ? '✓' : undefined}>
          English
        </Menu.Item>
        <Menu.Item onClick={() => choose('ko')} lang="ko" rightSection={language === 'ko' ? '✓' : undefined}>
          한국어
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label c="dimmed">{say('theme')}</Menu.Label>
        {(['light', 'dark', 'auto'] as const).map((one) => (
          <Menu.Item
            key={one}
            onClick={() => setColorScheme(one)}
            rightSection={colorScheme === one ? '✓' : undefined}
          >
            {say(one === 'auto' ? 'system' : one)}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => void signOut()}>{say('signOut')}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}
