// Buttons that copy the text of an element, named by data-copy, to the clipboard.

function setUpCopy(button) {
  const source = document.getElementById(button.dataset.copy);
  const done = button.parentElement.querySelector("output");
  button.hidden = false;
  button.addEventListener("click", async () => {
    // the text is selected in any case: where the page may not write to the clipboard, one key copies it
    const selection = window.getSelection();
    selection.removeAllRanges();
    const range = document.createRange();
    range.selectNodeContents(source);
    selection.addRange(range);
    let copied = true;
    try {
      await navigator.clipboard.writeText(source.innerText);
    } catch {
      copied = document.execCommand("copy");
    }
    done.textContent = copied ? "Copied." : "Selected: press Ctrl+C to copy.";
  });
}
