import * as digits from "./digits.js";
import * as polygon from "./polygon.js";

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
  });
}
polygon.start();
digits
  .start()
  .then(() => (document.body.dataset.ready = "yes"))
  .catch((error) => {
    document.getElementById("digits-error").textContent = `The models could not be loaded: ${error.message}`;
  });
