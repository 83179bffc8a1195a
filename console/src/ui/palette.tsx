import { Spotlight } from '@mantine/spotlight'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { mayUse, useSession } from '../api/session.ts'
import { useSay } from './language.tsx'
import { navigation } from './navigation.ts'

/** Where an id's page is. What is none of ours may be an account or a keyword. */
function placesOf(text: string): {
  word: 'subscription' | 'invoice' | 'events' | 'runs' | 'model' | 'account' | 'keyword' | 'refund'
  to: string
}[] {
  const id = text.trim()
  const name = encodeURIComponent(id)
  if (/^sub_\w{20,}$/.test(id)) return [{ word: 'subscription', to: `/subscriptions/${id}` }]
  if (/^inv_\w{20,}$/.test(id)) return [{ word: 'invoice', to: `/invoices/${id}` }]
  if (/^(pay|ref)_\w{20,}$/.test(id)) return [{ word: 'refund', to: `/find/${id}` }]
  if (/^evt_\w{20,}$/.test(id)) return [{ word: 'events', to: `/events?id=${id}` }]
  if (/^run_\w{20,}$/.test(id)) return [{ word: 'runs', to: `/training?run=${id}` }]
  if (/^mdl_\w{20,}$/.test(id)) return [{ word: 'model', to: `/models/${id}` }]
  if (id === '') return []
  const account = /^[\w.:-]{1,64}$/.test(id) ? [{ word: 'account' as const, to: `/accounts/${name}` }] : []
  return [...account, { word: 'keyword' as const, to: `/keywords/${name}` }]
}

export default function Palette() {
  const say = useSay()
  const session = useSession()
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const wanted = text.trim().toLowerCase()
  const pages = navigation
    .flatMap(({ places }) => places)
    .filter(
      ({ scope, sandboxOnly }) =>
        (!scope || mayUse(session, scope)) && (!sandboxOnly || session.mode === 'sandbox'),
    )
    .filter(({ word }) => say(word).toLowerCase().includes(wanted))
  const found = placesOf(text)
  const go = (to: string) => () => {
    setText('')
    void navigate({ to })
  }
  return (
    <Spotlight.Root query={text} onQueryChange={setText} shortcut={null}>
      <Spotlight.Search placeholder={say('searchAnything')} aria-label={say('search')} />
      <Spotlight.ActionsList>
        {found.map(({ word, to }) => (
          <Spotlight.Action
            key={to}
            onClick={go(to)}
            label={say('openId', { id: text.trim() })}
            description={say(word)}
          />
        ))}
        {pages.map(({ to, word }) => (
          <Spotlight.Action key={to} onClick={go(to)} label={say(word)} />
        ))}
        {found.length + pages.length === 0 && <Spotlight.Empty>{say('nothingFound')}</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  )
}
