// Fetches the page again every two seconds and puts its new content in place, without moving what is being read.
"use strict";
async function refresh() {
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (answer.status === 401) { location.reload(); return; }
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of ["main", "#facts"]) {
        const now = document.querySelector(part), next = fresh.querySelector(part);
        if (now && next && now.innerHTML !== next.innerHTML) { now.replaceWith(document.adoptNode(next)); }
      }
    }
    document.body.classList.toggle("away", !answer.ok);
  } catch {
    document.body.classList.add("away");
  }
  setTimeout(refresh, document.hidden ? 10000 : 2000);
}
setTimeout(refresh, 2000);
