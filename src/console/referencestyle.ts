/** How the reference looks: light and dark, on any width, without a font or a picture to fetch. */
export const STYLE = `:root{color-scheme:light dark;--text:#1c2330;--dim:#48505e;--line:#d9dee7;--page:#fff;--code:#f3f5f9;--link:#12479f}
@media(prefers-color-scheme:dark){:root{--text:#e4e8f0;--dim:#a9b2c3;--line:#333b4a;--page:#14181f;--code:#1d232d;--link:#8db8ff}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--text);background:var(--page)}
a{color:var(--link)}
.skip{position:absolute;left:-100rem}.skip:focus{left:1rem;top:1rem;background:var(--page);padding:.5rem}
header{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem;align-items:center;padding:.75rem 1.5rem;border-bottom:1px solid var(--line)}
header form{margin-left:auto}
input,button{font:inherit;padding:.3rem .6rem;border:1px solid var(--dim);border-radius:.3rem;color:inherit;background:var(--page)}
.columns{display:grid;grid-template-columns:15rem minmax(0,1fr)}
nav{padding:1rem 1.5rem;border-right:1px solid var(--line);font-size:.9rem}
nav h2{font-size:.9rem;margin:1rem 0 .3rem}nav ul{list-style:none;margin:0;padding:0}nav li{padding:.15rem 0}
main{padding:1rem 2rem 4rem;max-width:60rem;min-width:0}
h1{font-size:1.7rem}h2{font-size:1.3rem;margin-top:2.2rem}h3{font-size:1.05rem}h4{font-size:.9rem;margin-bottom:.2rem;color:var(--dim)}
code{font:.88em ui-monospace,monospace;background:var(--code);padding:.1em .3em;border-radius:.2rem}
pre{background:var(--code);padding:.8rem 1rem;overflow-x:auto;border-radius:.4rem}pre code{padding:0}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.93rem}
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid var(--line)}
tr:target,h2:target{background:var(--code)}
.endpoints{padding-left:1.2rem}.endpoints code{overflow-wrap:anywhere}.found p{margin:.2rem 0 1rem;color:var(--dim)}
@media(max-width:50rem){.columns{display:flex;flex-direction:column}nav{order:1;border-right:0;border-top:1px solid var(--line)}main{padding:1rem}header form{margin-left:0}}
@media(max-width:40rem){.wide thead{position:absolute;left:-100rem}.wide table,.wide tbody,.wide tr,.wide td{display:block}.wide tr{padding:.5rem 0;border-bottom:1px solid var(--line)}.wide td{padding:.1rem 0;border:0;overflow-wrap:anywhere}.wide td:empty{display:none}.wide td:not(:first-child)::before{content:attr(data-column) ": ";color:var(--dim)}}
`;
