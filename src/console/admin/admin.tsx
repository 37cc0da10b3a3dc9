import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { linkTo, route } from "../lib/address.ts";
import { VIEWS, type View } from "../lib/admin-views.ts";
import { isConnected } from "../lib/api.ts";
import { FailureBox } from "../parts/failure-box.tsx";
import { Icon } from "../parts/icons.tsx";
import { Menu } from "../parts/menu.tsx";
import { PreferenceFields } from "../parts/preference-fields.tsx";
import { Mark } from "../sign-in.tsx";
import { moment } from "../words/format.ts";
import { words } from "../words/words.ts";
import { endSession, hasLink, openSession, session, sessionProblem } from "./admin-session.ts";
import { OrganizationView } from "./organization.tsx";
import { Organizations } from "./organizations.tsx";
import { Overview } from "./overview.tsx";
import { Models, Transcriptions, Webhooks } from "./work.tsx";

/** The views of an admin. */
export function Admin() {
  const t = words.value;
  useEffect(() => {
    void openSession();
    // A link that is opened in this tab changes only the part of the address behind `#`.
    const open = () => void (hasLink() && openSession());
    addEventListener("hashchange", open);
    return () => removeEventListener("hashchange", open);
  }, []);
  if (session.value === undefined) return <p class="empty">{t.loading}</p>;
  if (session.value === null) return <NoSession />;
  return (
    <div class="workplace admin">
      <Header />
      {!isConnected.value && (
        <p class="banner" role="alert">
          <Icon name="failed" /> {t.offline}
        </p>
      )}
      <div class="admin-columns">
        <Views />
        <main id="main" class="admin-main" tabIndex={-1}>
          <h1 class="unseen">{t.admin.title}</h1>
          <ShownView />
        </main>
      </div>
    </div>
  );
}

function NoSession() {
  const t = words.value;
  return (
    <main class="sign-in">
      <div class="card">
        <h1>
          <Mark /> {t.admin.noSession}
        </h1>
        <p>{t.admin.noSessionHelp}</p>
        {sessionProblem.value && <FailureBox failure={sessionProblem.value} />}
        <a href={linkTo()}>{t.list.title}</a>
      </div>
      <PreferenceFields />
    </main>
  );
}

function Header() {
  const t = words.value;
  const until = session.value?.expires_at;
  return (
    <header class="top">
      <a href={linkTo("admin")} class="brand" aria-label={t.admin.title}>
        <Mark /> <span>{t.admin.title}</span>
      </a>
      <span class="spring" />
      {until !== undefined && <span class="muted small wide-only">{t.admin.until(moment(until))}</span>}
      <Menu>
        <PreferenceFields />
        <a href={linkTo()}>{t.list.title}</a>
        <button type="button" onClick={() => void endSession()}>
          <Icon name="signOut" /> {t.admin.signOut}
        </button>
      </Menu>
    </header>
  );
}

const currentView = (): View => VIEWS.find((one) => one === route.value[1]) ?? VIEWS[0];

function Views() {
  const t = words.value.admin;
  return (
    <nav class="admin-nav" aria-label={t.title}>
      <ul>
        {VIEWS.map((view) => (
          <li key={view}>
            <a href={linkTo("admin", view)} aria-current={currentView() === view ? "page" : undefined}>
              {t.views[view]}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** What each view shows. An organization has a view of its own, at its ID. */
const SHOWN: Record<View, (id: string | undefined) => JSX.Element> = {
  overview: () => <Overview />,
  organizations: (id) => (id === undefined ? <Organizations /> : <OrganizationView key={id} id={id} />),
  transcriptions: () => <Transcriptions />,
  models: () => <Models />,
  webhooks: () => <Webhooks />,
};

function ShownView() {
  const [, , id] = route.value;
  return SHOWN[currentView()](id);
}
