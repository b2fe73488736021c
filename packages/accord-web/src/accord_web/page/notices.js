// Says that an agent waits for the user: in the title, on the icon, and by a notification.

const wanted = () => localStorage.getItem("notify") === "yes" && "Notification" in window && Notification.permission === "granted";

class Notices {
  constructor() {
    /** @type {Map<string, string>} the state of each session */
    this.states = new Map();
    this.waiting = 0;
    this.name = "Accord";
  }

  /** @param {any[]} sessions */
  sessions(sessions) {
    const isFirst = !this.states.size;
    for (const session of sessions) {
      const before = this.states.get(session.id);
      this.states.set(session.id, session.state);
      if (isFirst || before === session.state || !document.hidden || !wanted()) continue;
      if (session.state === "waits") this.notify(session, session.question || "The agent waits for you");
      else if (before === "works") this.notify(session, session.state === "failed" ? "The turn has failed" : "The turn has ended");
    }
    this.waiting = sessions.filter((session) => session.state === "waits").length;
    this.show();
    if (this.waiting) navigator.setAppBadge?.(this.waiting).catch(() => {});
    else navigator.clearAppBadge?.().catch(() => {});
  }

  /** @param {string} name what the page shows */
  titled(name) {
    this.name = name;
    this.show();
  }

  show() {
    document.title = `${this.waiting ? `(${this.waiting}) ` : ""}${this.name}`;
  }

  /** @param {any} session @param {string} body */
  async notify(session, body) {
    const options = { body, tag: session.id, icon: "/page/icon.svg" };
    const registration = await navigator.serviceWorker?.getRegistration();
    if (registration) await registration.showNotification(session.title, options).catch(() => {});
    else new Notification(session.title, options).onclick = () => window.focus();
  }

  get canAsk() {
    return "Notification" in window && Notification.permission !== "denied" && !wanted();
  }

  async ask() {
    const found = await Notification.requestPermission();
    localStorage.setItem("notify", found === "granted" ? "yes" : "no");
    return found;
  }
}

export const notices = new Notices();
